"""The report as JSON: the view, as it is, under a named schema."""

import json
from dataclasses import asdict
from typing import Final

from k3runner.report.view import ReportView

__all__ = ["SCHEMA", "render_json"]

SCHEMA: Final = "k3-eval.report/1"
"""Name and version of this form."""


def render_json(view: ReportView) -> str:
    """Return the report as indented JSON. The trust label is part of it, beside every number."""
    return json.dumps(
        {"schema": SCHEMA, **asdict(view)}, ensure_ascii=False, allow_nan=False, indent=2
    )
