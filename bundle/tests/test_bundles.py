"""The committed bundle files: what verified once verifies for ever, what was bad stays refused."""

from pathlib import Path

import pytest

from k3bundle.archive import read_archive
from k3bundle.policy import Policy
from k3bundle.seal import bundle_sha256
from k3bundle.verify import verify
from k3bundle.verify_path import verify_path
from k3bundle_testing import signer_fingerprint
from k3bundle_testing.defects import DEFECTS
from k3bundle_testing.sealing import sealed_bundle
from k3bundle_testing.write_fixtures import FIXTURE_DEFECTS, GOOD_FIXTURE, main

BUNDLES = Path(__file__).parent / "bundles"
BY_NAME = {defect.name: defect for defect in DEFECTS}


def test_good_v1_verifies() -> None:
    report = verify_path(BUNDLES / GOOD_FIXTURE, Policy())
    assert report.findings == ()
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert report.manifest is not None
    assert report.manifest.change.pull_request == 7
    assert report.signer_fingerprint == signer_fingerprint()


def test_good_v1_keeps_its_digest() -> None:
    files = read_archive(BUNDLES / GOOD_FIXTURE)
    digest = (BUNDLES / "good_v1.sha256").read_text().strip()
    assert bundle_sha256(files) == digest


def test_sealing_today_verifies_like_good_v1() -> None:
    """Sentences of the verdict may change between releases; what is accepted may not."""
    then, now = read_archive(BUNDLES / GOOD_FIXTURE), sealed_bundle()
    assert set(then) == set(now)
    assert verify(now, Policy()).findings == ()


@pytest.mark.parametrize("name", FIXTURE_DEFECTS)
def test_bad_fixture_is_refused_with_its_finding(name: str) -> None:
    defect = BY_NAME[name]
    findings = verify_path(BUNDLES / f"bad_{name}.k3b", Policy()).findings
    assert [f for f in findings if f.code == defect.code and f.where.startswith(defect.where)]


def test_fixtures_are_the_named_files() -> None:
    found = {path.name for path in BUNDLES.iterdir()}
    named = {f"bad_{name}.k3b" for name in FIXTURE_DEFECTS}
    assert found == named | {GOOD_FIXTURE, "good_v1.sha256"}


def test_write_fixtures_gives_files_that_verify_the_same(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 0
    for path in sorted(tmp_path.glob("*.k3b")):
        fresh = verify_path(path, Policy()).findings
        committed = verify_path(BUNDLES / path.name, Policy()).findings
        assert {f.code for f in fresh} == {f.code for f in committed}, path.name


def test_write_fixtures_keeps_the_good_one(tmp_path: Path) -> None:
    (tmp_path / GOOD_FIXTURE).write_bytes(b"released")
    assert main([str(tmp_path)]) == 0
    assert (tmp_path / GOOD_FIXTURE).read_bytes() == b"released"


def test_verify_path_missing_file_is_a_finding(tmp_path: Path) -> None:
    (finding,) = verify_path(tmp_path / "none.k3b", Policy()).findings
    assert finding.code == "archive-framing"
    assert "FileNotFoundError" in finding.why


def test_verify_path_folder_is_a_finding(tmp_path: Path) -> None:
    (finding,) = verify_path(tmp_path, Policy()).findings
    assert finding.code == "archive-framing"
