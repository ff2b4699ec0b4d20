"""Bundles whose files, identities, signature or stored verdict do not fit each other."""

import base64
from typing import Final

from k3bundle import layout
from k3bundle.canonical import canonical_json, parse_strict
from k3bundle.manifest import Manifest
from k3bundle.policy import Policy
from k3bundle.seal import assemble
from k3bundle.sshsig import fingerprint
from k3bundle.subject import ChangeUnderTest, ImageFacts
from k3bundle.verdict import Verdict
from k3bundle_testing.defect import (
    Defect,
    Files,
    changed,
    edited,
    good_files,
    good_verdict,
    resealed,
    resigned,
)
from k3bundle_testing.example_run import good_records, good_run_files
from k3bundle_testing.sealing import SEALED_AT_UTC, sealed_bundle
from k3bundle_testing.signers import other_signer, signer_fingerprint

__all__ = ["SEAL_DEFECTS"]

_OTHER_IMAGE: Final = ImageFacts(manifest_digest=f"sha256:{'0' * 64}", tree_sha256=None)
_OTHER_CHANGE: Final = ChangeUnderTest(
    repository="example/engine", pull_request=7, commit_sha="deadbeef" * 5
)
_OTHER_NONCE: Final = "5" * 64


def _without(name: str) -> Files:
    return {path: content for path, content in sealed_bundle().items() if path != name}


def _manifest_files(*, drop: str = "", add: str = "", reverse: bool = False) -> bytes:
    manifest = Manifest.model_validate_json(sealed_bundle()[layout.MANIFEST])
    files = [file for file in manifest.files if file.path != drop]
    if add:
        files = sorted([*files, changed(files[0], path=add)], key=lambda file: file.path)
    if reverse:
        files.reverse()
    return canonical_json([file.model_dump() for file in files])


def _not_listed() -> Files:
    files = _manifest_files(drop=layout.REQUESTS)
    return resigned(_without(layout.REQUESTS), {"files": files})


def _spaced_manifest() -> Files:
    files = dict(sealed_bundle())
    files[layout.MANIFEST] = files[layout.MANIFEST] + b"\n"
    return resigned(files)


def _manifest_field(name: str, text: bytes) -> Files:
    return resigned(sealed_bundle(), {name: text})


def _manifest_nonce() -> Files:
    run = changed(good_records().run, nonce=_OTHER_NONCE)
    return resigned(sealed_bundle(), {"run": canonical_json(run)}, nonce=_OTHER_NONCE)


def _attestation_of_another() -> Files:
    other = sealed_bundle(nonce=_OTHER_NONCE)
    return {**sealed_bundle(), layout.ATTESTATION: other[layout.ATTESTATION]}


def _envelope(**fields: bytes) -> Files:
    files = sealed_bundle()
    envelope = parse_strict(files[layout.ATTESTATION])
    assert isinstance(envelope, dict)  # noqa: S101
    envelope.update({name: parse_strict(text) for name, text in fields.items()})
    return {**files, layout.ATTESTATION: canonical_json(envelope)}


def _payload_edited() -> Files:
    envelope = parse_strict(sealed_bundle(greedy_differs=True)[layout.ATTESTATION])
    assert isinstance(envelope, dict)  # noqa: S101
    payload = base64.b64decode(str(envelope["payload"])).replace(b'"FAIL"', b'"PASS"')
    return _envelope(payload=canonical_json(base64.b64encode(payload).decode()))


def _keyid_of_another() -> Files:
    files = sealed_bundle()
    mine, theirs = signer_fingerprint(), fingerprint(other_signer().public_key)
    return edited(files, layout.ATTESTATION, mine.encode(), theirs.encode())


def _signed_by_another() -> Files:
    return assemble(good_files(), good_records(), good_verdict(), other_signer(), SEALED_AT_UTC)


def _headline_edited() -> Files:
    verdict = good_verdict()
    first = verdict.headline[0]
    headline = (changed(first, value=first.value * 1.5 + 1), *verdict.headline[1:])
    return resealed(good_files(), changed(verdict, headline=headline))


def _verdict_of(**changes: bool | str) -> Files:
    """Files of a worse run, sealed with the verdict of the good one."""
    return resealed(good_run_files(**changes), good_verdict())


def _skipped_and_green() -> Files:
    verdict: Verdict = changed(good_verdict(), cells=())
    return resealed(good_run_files(skipped_only=True), verdict)


def _limits_removed() -> Files:
    return resealed(good_files(), changed(good_verdict(), limits=()))


def _cell_removed() -> Files:
    return resealed(good_files(), changed(good_verdict(), cells=good_verdict().cells[1:]))


def _with_log(content: bytes) -> Files:
    return resealed({**good_files(), layout.LOG_PREFIX + "boot-0.0.log": content})


def _secret_log() -> Files:
    return _with_log(b"INFO start\nINFO token hf_" + b"abcdefghij" * 4 + b"\n")


def _bearer_log() -> Files:
    return _with_log(b"DEBUG Authorization: Bearer abcdefghijklmnop\n")


SEAL_DEFECTS: Final = (
    Defect(
        "file_extra",
        "file-unlisted",
        "logs/extra.log",
        lambda: {**sealed_bundle(), "logs/extra.log": b"added later"},
    ),
    Defect(
        "file_of_unknown_name",
        "file-unlisted",
        "results.csv",
        lambda: resealed({**good_files(), "results.csv": b"1,2\n"}),
    ),
    Defect("file_missing", "file-missing", layout.REQUESTS, lambda: _without(layout.REQUESTS)),
    Defect("manifest_missing", "file-missing", layout.MANIFEST, lambda: _without(layout.MANIFEST)),
    Defect("file_required_not_listed", "file-missing", layout.MANIFEST, _not_listed),
    Defect(
        "file_edited",
        "file-digest",
        layout.REQUESTS,
        lambda: edited(sealed_bundle(), layout.REQUESTS, b"40000000", b"10000000"),
    ),
    Defect(
        "file_longer",
        "file-digest",
        layout.ENVIRONMENT,
        lambda: edited(sealed_bundle(), layout.ENVIRONMENT, b"Example CPU", b"Exemplary CPU"),
    ),
    Defect(
        "manifest_lists_itself",
        "file-unlisted",
        layout.MANIFEST,
        lambda: _manifest_field("files", _manifest_files(add=layout.MANIFEST)),
    ),
    Defect(
        "manifest_unsorted",
        "record-invalid",
        layout.MANIFEST,
        lambda: _manifest_field("files", _manifest_files(reverse=True)),
    ),
    Defect("manifest_not_canonical", "record-invalid", layout.MANIFEST, _spaced_manifest),
    Defect(
        "manifest_image_of_another",
        "records-inconsistent",
        layout.MANIFEST + " $.image",
        lambda: _manifest_field("image", canonical_json(_OTHER_IMAGE)),
    ),
    Defect(
        "manifest_image_by_tag",
        "record-invalid",
        layout.MANIFEST,
        lambda: _manifest_field("image", b'{"manifest_digest":"latest","tree_sha256":null}'),
    ),
    Defect(
        "commit_other_than_asked",
        "change-mismatch",
        layout.MANIFEST,
        sealed_bundle,
        Policy(change=_OTHER_CHANGE),
    ),
    Defect(
        "commit_other_in_manifest",
        "change-mismatch",
        layout.MANIFEST,
        lambda: _manifest_field("change", canonical_json(_OTHER_CHANGE)),
    ),
    Defect(
        "commit_other_in_statement",
        "change-mismatch",
        layout.ATTESTATION,
        lambda: resigned(sealed_bundle(), change=_OTHER_CHANGE),
    ),
    Defect("nonce_other_in_manifest", "nonce-mismatch", layout.MANIFEST, _manifest_nonce),
    Defect(
        "nonce_other_in_statement",
        "nonce-mismatch",
        layout.ATTESTATION,
        lambda: resigned(sealed_bundle(), nonce=_OTHER_NONCE),
    ),
    Defect(
        "plan_other_in_statement",
        "plan-digest-mismatch",
        layout.ATTESTATION,
        lambda: resigned(sealed_bundle(), plan_sha256="6" * 64),
    ),
    Defect(
        "plan_edited_after_the_run",
        "plan-digest-mismatch",
        layout.RUN,
        lambda: resealed(
            edited(good_files(), layout.PLAN, b'nats":0.001', b'nats":9.001'),
        ),
    ),
    Defect(
        "plan_not_allowed",
        "plan-digest-mismatch",
        layout.PLAN,
        sealed_bundle,
        Policy(allowed_plans=frozenset({"7" * 64})),
    ),
    Defect(
        "attestation_missing",
        "attestation-missing",
        layout.ATTESTATION,
        lambda: _without(layout.ATTESTATION),
    ),
    Defect(
        "attestation_not_json",
        "attestation-malformed",
        layout.ATTESTATION,
        lambda: {**sealed_bundle(), layout.ATTESTATION: b"-----BEGIN SSH SIGNATURE-----"},
    ),
    Defect(
        "attestation_unsigned",
        "attestation-malformed",
        layout.ATTESTATION,
        lambda: _envelope(signatures=b"[]"),
    ),
    Defect(
        "attestation_key_id_of_another",
        "attestation-malformed",
        layout.ATTESTATION,
        _keyid_of_another,
    ),
    Defect(
        "attestation_base64_loose",
        "attestation-malformed",
        layout.ATTESTATION,
        lambda: _envelope(payload=b'"e30=\\n"'),
    ),
    Defect(
        "attestation_of_another_bundle",
        "statement-mismatch",
        layout.ATTESTATION,
        _attestation_of_another,
    ),
    Defect("attestation_edited", "signature-invalid", layout.ATTESTATION, _payload_edited),
    Defect(
        "statement_of_another_verdict",
        "statement-mismatch",
        layout.ATTESTATION,
        lambda: resigned(sealed_bundle(greedy_differs=True), verdict="PASS"),
    ),
    Defect(
        "signer_not_allowed",
        "signer-not-allowed",
        layout.ATTESTATION,
        _signed_by_another,
        Policy(allowed_signers=frozenset({signer_fingerprint()})),
    ),
    Defect(
        "tier_too_low",
        "policy-tier",
        layout.PLAN,
        sealed_bundle,
        Policy(minimum_tier="standard"),
    ),
    Defect(
        "verdict_not_enough",
        "policy-verdict",
        layout.VERDICT,
        lambda: sealed_bundle(greedy_differs=True),
        Policy(allowed_verdicts=frozenset({"PASS"})),
    ),
    Defect(
        "headline_number_edited",
        "number-mismatch",
        layout.VERDICT + " $.headline[0].value",
        _headline_edited,
    ),
    Defect(
        "verdict_of_a_better_run",
        "verdict-mismatch",
        layout.VERDICT + " $.status",
        lambda: _verdict_of(greedy_differs=True),
    ),
    Defect(
        "verdict_hides_that_stock_was_measured",
        "verdict-mismatch",
        layout.VERDICT + " $.status",
        lambda: _verdict_of(candidate_path="stock"),
    ),
    Defect(
        "verdict_green_with_all_skipped",
        "verdict-mismatch",
        layout.VERDICT + " $.status",
        _skipped_and_green,
    ),
    Defect(
        "verdict_hides_the_resumption",
        "verdict-mismatch",
        layout.VERDICT + " $.resumed",
        lambda: _verdict_of(resumed=True),
    ),
    Defect(
        "verdict_without_limits",
        "verdict-mismatch",
        layout.VERDICT + " $.limits",
        _limits_removed,
    ),
    Defect(
        "verdict_without_a_cell", "verdict-mismatch", layout.VERDICT + " $.cells", _cell_removed
    ),
    Defect("secret_token_in_a_log", "secret-found", "logs/boot-0.0.log line 2", _secret_log),
    Defect("secret_header_in_a_log", "secret-found", "logs/boot-0.0.log line 1", _bearer_log),
)
