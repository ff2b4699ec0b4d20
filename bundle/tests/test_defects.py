"""Every named defect is refused with its finding, and every finding code has a defect."""

from typing import get_args

import pytest

from k3bundle.archive import read_archive_bytes
from k3bundle.errors import BundleError
from k3bundle.finding import Finding, FindingCode
from k3bundle.policy import Policy
from k3bundle.verify import verify
from k3bundle_testing.defects import DEFECTS, Defect, defect_archive


def findings_of(data: bytes, policy: Policy) -> tuple[Finding, ...]:
    try:
        files = read_archive_bytes(data)
    except BundleError as error:
        return error.findings
    return verify(files, policy).findings


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_verify_defect_is_refused_with_its_finding(defect: Defect) -> None:
    findings = findings_of(defect_archive(defect), defect.policy)
    named = [f for f in findings if f.code == defect.code and f.where.startswith(defect.where)]
    assert named, findings
    assert all(f.why.endswith(".") and f.hint and f.where.isascii() for f in findings)


def test_defects_have_unique_names() -> None:
    names = [defect.name for defect in DEFECTS]
    assert len(names) == len(set(names))


def test_every_finding_code_has_a_defect() -> None:
    assert {defect.code for defect in DEFECTS} == set(get_args(FindingCode))
