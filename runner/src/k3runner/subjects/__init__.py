"""Subjects as data: how an engine under test is started, and how its two arms differ."""

from k3runner.subjects.definition import EngineLaunch, Subject, SubjectArm, SubjectModel
from k3runner.subjects.loading import load_subject, shipped_subjects

__all__ = [
    "EngineLaunch",
    "Subject",
    "SubjectArm",
    "SubjectModel",
    "load_subject",
    "shipped_subjects",
]
