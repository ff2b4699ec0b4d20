"""The verifier on whole bundles and on bytes that nobody would write."""

import json
import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from k3bundle import layout
from k3bundle.archive import archive_bytes, read_archive_bytes
from k3bundle.bundle import parse_records
from k3bundle.derive import derive
from k3bundle.errors import BundleError
from k3bundle.policy import Policy
from k3bundle.seal import assemble, seal
from k3bundle.verify import verify
from k3bundle_testing import example_signer, good_records, good_run_files, signer_fingerprint
from k3bundle_testing.defect import good_verdict, resealed
from k3bundle_testing.sealing import SEALED_AT_UTC, sealed_bundle

SEALED = sealed_bundle()
VARIATIONS: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "PASS"),
    ({"resumed": True}, "PASS"),
    ({"nonce_source": "registry"}, "PASS"),
    ({"pairing": "single"}, "INCOMPLETE"),
    ({"skipped_only": True}, "INCOMPLETE"),
    ({"missing_slots": (2,)}, "INCOMPLETE"),
    ({"missing_slots": (0, 1, 2, 3)}, "INCOMPLETE"),
    ({"failed_serving_requests": 2}, "INVALID"),
    ({"coverage_available": False}, "INVALID"),
    ({"candidate_path": "stock"}, "INVALID"),
    ({"greedy_differs": True}, "FAIL"),
    ({"structured_output_broken": True}, "FAIL"),
)
ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**53 - 1, 10**30, 1e308, -0.5, "", "x" * 30_000, [], {}, [[]], {"a": 1},
    "\u202e", "9" * 64, "boot-0.0", float("nan"),
)  # fmt: skip


@pytest.mark.parametrize(("changes", "status"), VARIATIONS)
def test_verify_sealed_run_is_accepted_with_its_verdict(
    changes: dict[str, Any], status: str
) -> None:
    files = read_archive_bytes(archive_bytes(sealed_bundle(**changes)))
    report = verify(files, Policy(allowed_signers=frozenset({signer_fingerprint()})))
    assert report.findings == ()
    assert report.ok
    assert report.verdict is not None
    assert report.verdict.status == status
    assert report.verdict == derive(parse_records(files))


def test_verify_lists_all_findings_at_once_in_order() -> None:
    files = dict(sealed_bundle())
    del files[layout.COUNTERS]
    files["extra.txt"] = b""
    files[layout.BOOTS] = b"{}\n"
    files[layout.ATTESTATION] = b"[]"
    report = verify(files, Policy())
    codes = [finding.code for finding in report.findings]
    assert codes == sorted(codes)
    assert set(codes) == {
        "attestation-malformed",
        "file-digest",
        "file-missing",
        "file-unlisted",
        "record-invalid",
    }
    assert report.verdict is None
    assert report.signer_fingerprint is None


def test_verify_without_attestation_is_accepted_where_none_is_required() -> None:
    files = {p: c for p, c in sealed_bundle().items() if p != layout.ATTESTATION}
    report = verify(files, Policy(require_attestation=False))
    assert report.findings == ()
    assert report.signer_fingerprint is None


def test_verify_number_within_rounding_is_accepted() -> None:
    verdict = good_verdict()
    first = verdict.headline[0]
    near = first.model_copy(update={"value": first.value * (1 + 1e-12)})
    headline = (near, *verdict.headline[1:])
    files = resealed(good_run_files(), verdict.model_copy(update={"headline": headline}))
    assert verify(files, Policy()).findings == ()


def test_verify_hostile_million_lines_gives_few_findings() -> None:
    files = {**good_run_files(), layout.BOOTS: b"{}\n" * 100_000}
    findings = verify(resealed(files), Policy()).findings
    assert 50 < len(findings) < 120
    assert any("more that are not listed" in finding.why for finding in findings)


def test_seal_contradicting_records_is_refused_with_findings() -> None:
    files = good_run_files()
    files[layout.REQUESTS] = files[layout.REQUESTS].split(b"\n", 1)[1]
    with pytest.raises(BundleError) as caught:
        seal(files, example_signer(), SEALED_AT_UTC)
    assert {finding.code for finding in caught.value.findings} == {"records-inconsistent"}


def test_seal_again_gives_the_same_bytes() -> None:
    once = seal(good_run_files(), example_signer(), SEALED_AT_UTC)
    assert seal(once, example_signer(), SEALED_AT_UTC) == once


def test_verify_that_ends_in_an_exception_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(records: object) -> None:
        raise RecursionError("too deep\u202e")

    monkeypatch.setattr("k3bundle.verify.derive", fail)
    (finding,) = verify(SEALED, Policy()).findings
    assert (finding.code, finding.where) == ("records-inconsistent", layout.VERDICT)
    assert "judging ends in RecursionError: too deep\\u202e" in finding.why


def test_verify_no_files_at_all() -> None:
    codes = {finding.code for finding in verify({}, Policy()).findings}
    assert codes == {"attestation-missing", "file-missing"}


@given(
    st.dictionaries(
        st.sampled_from([*layout.REQUIRED_FILES, layout.MANIFEST, layout.ATTESTATION, "x\n"]),
        st.binary(max_size=80) | st.sampled_from([b"{}", b"[]", b"null", b"1\n", b'"a"\n', b""]),
    )
)
def test_verify_any_bytes_is_refused_without_a_traceback(files: dict[str, bytes]) -> None:
    assert verify({**SEALED, **files}, Policy()).findings or not files


def _mutated(data: bytes, chooser: random.Random) -> bytes:
    """Change one value, anywhere, in one record."""
    lines = data.split(b"\n")
    at = chooser.choice([i for i, line in enumerate(lines) if line])
    record = json.loads(lines[at])
    place, key = _place(record, chooser)
    if isinstance(place, dict) and chooser.random() < 0.2:
        del place[key]
    else:
        place[key] = chooser.choice(ODD_VALUES)
    lines[at] = json.dumps(record, separators=(",", ":")).encode()
    return b"\n".join(lines)


def _place(record: Any, chooser: random.Random) -> tuple[Any, Any]:
    place = record
    while True:
        key = chooser.choice(list(place) if isinstance(place, dict) else range(len(place)))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or chooser.random() < 0.2:
            return place, key
        place = inner


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_verify_json_mutation_is_refused_whole_and_never_a_traceback_resealed(seed: int) -> None:
    chooser = random.Random(seed)  # noqa: S311
    sealed = dict(SEALED)
    name = chooser.choice([n for n in sorted(sealed) if not n.startswith(layout.LOG_PREFIX)])
    mutated = _mutated(sealed[name], chooser)
    if mutated == sealed[name]:
        return
    assert verify({**sealed, name: mutated}, Policy()).findings
    _verify_resealed({**SEALED, name: mutated})


def _verify_resealed(files: Mapping[str, bytes]) -> None:
    """With digests and signature made right, a mutation may be accepted, but only as it is."""
    raw = {
        path: content
        for path, content in files.items()
        if path not in {layout.MANIFEST, layout.VERDICT, layout.ATTESTATION}
    }
    try:
        records = parse_records(raw)
    except BundleError:
        records = good_records()
    report = verify(
        assemble(raw, records, good_verdict(), example_signer(), SEALED_AT_UTC), Policy()
    )
    if report.ok:
        assert report.verdict is not None
        assert report.verdict.status == good_verdict().status
        assert report.verdict.headline == good_verdict().headline
