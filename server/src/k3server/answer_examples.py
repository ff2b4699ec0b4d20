"""Examples of answers for the description of the API: records, so that they stay true. Pure."""

from typing import Any, Final

from k3bundle.record import Record
from k3bundle.verdict import Claim, HeadlineNumber, RatioInterval
from k3server.wire import (
    BlobAnswer,
    CellAnswer,
    ComparisonAnswer,
    FindingAnswer,
    HealthAnswer,
    ListAnswer,
    NonceAnswer,
    ProblemAnswer,
    RatioAnswer,
    SubmissionAnswer,
    UploadAnswer,
)
from k3server.wire_board import BoardAnswer, WantedAnswer

__all__ = ["with_examples"]

_BUNDLE: Final = "5f" * 32
_OTHER: Final = "6e" * 32
_BLOB: Final = "ab" * 32
_COMMIT: Final = "0123456789abcdef0123456789abcdef01234567"
_AT: Final = "2026-01-02T05:00:00.000000Z"
_REPOSITORY: Final = "vllm-project/vllm"
_PULL: Final = 12345
_CELL: Final = "serving-isl1024-osl1024-c8"
_PREFIX: Final = "#/components/schemas/"


def _submission(digest: str) -> SubmissionAnswer:
    return SubmissionAnswer(
        submission_id=digest,
        url=f"https://registry.example/submissions/{digest}",
        bundle_sha256=digest,
        blob_sha256=_BLOB,
        repository=_REPOSITORY,
        pull_request=_PULL,
        commit_sha=_COMMIT,
        tier="standard",
        subject="k3-nvfp4",
        verdict="PASS",
        sentence="The change is isolated, bounded, correct and faster on this machine.",
        claims=(
            Claim(
                name="faster",
                status="PASS",
                sentence="Throughput rose by 8.1 %, at least 6.4 %.",
                cells=(_CELL,),
            ),
        ),
        headline=(
            HeadlineNumber(
                name="output_tokens_per_s_ratio",
                value=1.081,
                label="Candidate / baseline throughput",
                cell_id=_CELL,
            ),
        ),
        resumed=False,
        trust="signed",
        identity="github:octocat",
        space="main",
        state="visible",
        reason=None,
        nonce="issued-here",
        received_at_utc=_AT,
    )


def _ratio(ratio: float) -> RatioInterval:
    return RatioInterval(
        metric="output_tokens_per_s",
        pairs=4,
        ratio=ratio,
        lower=ratio - 0.017,
        upper=ratio + 0.017,
        confidence=0.95,
        minimum_detectable_effect=0.02,
    )


_WANTED: Final = WantedAnswer(
    wanted_id="0123456789abcdef",
    repository=_REPOSITORY,
    pull_request=_PULL,
    commit_sha=_COMMIT,
    tier="standard",
    subject="k3-nvfp4",
    cell_id=None,
    note="On a GB300, please.",
    state="claimed",
    claimed_by="token:lab",
    claimed_until_utc="2026-01-09T05:00:00.000000Z",
    fulfilled_by=None,
)
_EXAMPLES: Final[tuple[Record, ...]] = (
    BlobAnswer(sha256=_BLOB, size_bytes=150_000_000),
    BoardAnswer(wanted=(_WANTED,)),
    ComparisonAnswer(
        comparable=True,
        reasons=(),
        agree=True,
        disagreements=(),
        independent=True,
        one=_submission(_BUNDLE),
        other=_submission(_OTHER),
        cells=(CellAnswer(cell_id=_CELL, one="PASS", other="PASS"),),
        ratios=(
            RatioAnswer(
                cell_id=_CELL, metric="output_tokens_per_s", one=_ratio(1.081), other=_ratio(1.078)
            ),
        ),
    ),
    HealthAnswer(),
    ListAnswer(submissions=(_submission(_BUNDLE),), next_before=None),
    NonceAnswer(nonce="cd" * 32, expires_at_utc="2026-01-09T05:00:00.000000Z"),
    ProblemAnswer(
        type="about:blank",
        title="The request cannot be read",
        status=422,
        detail="commit_sha: Expected a full commit SHA of 40 lower-case hexadecimal digits, found "
        "'0123456' (7 characters). `git rev-parse HEAD` prints it.",
        findings=(
            FindingAnswer(
                code="request-invalid",
                where="commit_sha",
                why="Expected a full commit SHA of 40 lower-case hexadecimal digits, found "
                "'0123456' (7 characters).",
                hint="`git rev-parse HEAD` prints it.",
            ),
        ),
    ),
    _submission(_BUNDLE),
    UploadAnswer(
        upload_id="0123456789abcdef" * 2,
        blob_sha256=_BLOB,
        size_bytes=150_000_000,
        part_size_bytes=16 * 1024 * 1024,
        part_count=9,
        received=(1, 2, 5),
        expires_at_utc="2026-01-03T05:00:00.000000Z",
    ),
    _WANTED,
)


def with_examples(description: dict[str, Any]) -> dict[str, Any]:
    """Put an example beside every answer in JSON; one of a problem has the answer's status."""
    shown = {
        f"{_PREFIX}{type(each).__name__}": each.model_dump(mode="json", by_alias=True)
        for each in _EXAMPLES
    }
    for operations in description["paths"].values():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                for content in answer.get("content", {}).values():
                    example = shown.get(content.get("schema", {}).get("$ref"))
                    if example is None:
                        continue
                    told = {"status": int(status)} if "findings" in example else {}
                    content["example"] = {**example, **told}
    return description
