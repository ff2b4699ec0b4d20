"""Malformed bundles through the registry's own verification: none is accepted, none is an error.

Most are cheap to make and cheap to refuse: bytes of the file, or of the tar inside a right frame.
One in sixteen is careful: digests and signature are right, and a record, the journal or the verdict
is not. All go through `k3server.judge`, which is what the verifier's process runs; a share is also
sent to a real registry, as a contributor would.
"""

import random
import sys
import traceback
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx

from k3bundle.canonical import sha256_hex
from k3bundle.policy import Policy
from k3bundle.trailer import make_trailer, mark
from k3bundle.ustar import write_ustar
from k3bundle_testing.example_plan import EXAMPLE_CHANGE
from k3bundle_testing.mutations import KINDS
from k3bundle_testing.sealing import sealed_bundle
from k3server.adapters.sql.database import Database
from k3server.adapters.sql.index import SqlIndex
from k3server.judge import judge
from k3server_testing.process import RegistryProcess

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["MalformedResult", "malformed", "run_malformed"]

_CAREFUL: Final = ("content", "content_and_digests", "verdict", "journal_line", "kernel_line")
_CAREFUL_EVERY: Final = 16
_TURN: Final = 500


@dataclass(frozen=True)
class MalformedResult:
    """What became of the bundles."""

    bundles: int
    """Bundles that were judged."""
    kinds: dict[str, int]
    """How they were made -> bundles."""
    codes: dict[str, int]
    """Code of the first finding -> bundles."""
    accepted: int
    """Bundles that were not refused."""
    tracebacks: int
    """Bundles that ended the verifier with an exception."""
    sent: int
    """Bundles that were also sent to a registry."""
    statuses: dict[str, int]
    """Status -> answers to the submissions of those; `none` where there was no answer."""
    indexed: int
    """Submissions in the registry's index afterwards: 0 or 1, more are not looked for."""


def malformed(seed: int) -> tuple[str, bytes]:
    """A malformed bundle file and how it was made; equal numbers give equal bytes."""
    chooser = random.Random(seed)  # noqa: S311
    if seed % _CAREFUL_EVERY:
        kind = ("archive_bytes", "tar_bytes")[seed % 2]
    else:
        kind = _CAREFUL[seed // _CAREFUL_EVERY % len(_CAREFUL)]
    if kind == "tar_bytes":
        return kind, _framed(_edited_tar(chooser))
    made = KINDS[kind](chooser).bundle
    return kind, made if isinstance(made, bytes) else _quickly_packed(made)


def run_malformed(
    folder: Path, *, count: int, sent: int, processes: int, first: int = 0
) -> MalformedResult:
    """Judge `count` bundles, and send about `sent` of them to a registry, too.

    Args:
        folder: Of the registry.
        count: Bundles.
        sent: Bundles that are sent; each costs a second, because a process of its own judges it.
        processes: Processes that judge at the same time.
        first: Number of the first bundle.
    """
    turns = [range(at, min(at + _TURN, first + count)) for at in range(first, first + count, _TURN)]
    kinds: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    with ProcessPoolExecutor(processes) as pool:
        for made, found in pool.map(_judged, turns):
            kinds.update(made)
            codes.update(found)
    accepted, tracebacks = codes.pop("accepted", 0), codes.pop("traceback", 0)
    # An odd step, so that every kind is among them.
    step = max(1, count // sent) | 1
    statuses, indexed = _sent(folder, range(first, first + count, step))
    return MalformedResult(
        bundles=kinds.total(),
        kinds=dict(kinds),
        codes=dict(codes),
        accepted=accepted,
        tracebacks=tracebacks,
        sent=statuses.total(),
        statuses=dict(statuses),
        indexed=indexed,
    )


def _judged(seeds: range) -> tuple[Counter[str], Counter[str]]:
    kinds: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    policy = Policy(change=EXAMPLE_CHANGE, require_standard=True)
    with TemporaryDirectory(prefix="k3-malformed-") as folder:
        path = Path(folder) / "bundle.k3b"
        for seed in seeds:
            kind, archive = malformed(seed)
            kinds[kind] += 1
            path.write_bytes(archive)
            try:
                findings, _ = judge(path, policy)
            except Exception:
                traceback.print_exc()
                codes["traceback"] += 1
                continue
            codes[findings[0].code if findings else "accepted"] += 1
    return kinds, codes


def _sent(folder: Path, seeds: range) -> tuple[Counter[str], int]:
    statuses: Counter[str] = Counter()
    with RegistryProcess(folder) as registry, registry.client() as client:
        for seed in seeds:
            _, archive = malformed(seed)
            statuses[_status(client, archive)] += 1
    with closing(Database.in_file(folder / "registry.sqlite3")) as database:
        return statuses, len(SqlIndex(database).every(limit=1))


def _status(client: httpx.Client, archive: bytes) -> str:
    digest = sha256_hex(archive)
    try:
        client.put(f"/api/v1/blobs/{digest}", content=archive).raise_for_status()
        claim = {"blob_sha256": digest, **EXAMPLE_CHANGE.model_dump()}
        return str(client.post("/api/v1/submissions", json=claim).status_code)
    except httpx.HTTPStatusError as error:
        return str(error.response.status_code)
    except httpx.TransportError:
        return "none"


@cache
def _tar() -> bytes:
    return b"".join(write_ustar(sealed_bundle()))


@cache
def _marks() -> tuple[bytes, ...]:
    return tuple(mark(name, content) for name, content in sorted(sealed_bundle().items()))


def _framed(tar: bytes) -> bytes:
    """A right frame and a right trailer around any bytes."""
    frame = zstd.compress(tar, 1)
    return frame + make_trailer(frame, list(_marks()))


def _quickly_packed(files: Mapping[str, bytes]) -> bytes:
    """What `archive_bytes` makes, compressed less: a quarter of the time would go into that."""
    frame = zstd.compress(b"".join(write_ustar(files)), 1)
    return frame + make_trailer(frame, [mark(name, files[name]) for name in sorted(files)])


def _edited_tar(chooser: random.Random) -> bytes:
    data = bytearray(_tar())
    at = chooser.choice(_places(chooser))
    match chooser.randrange(5):
        case 0:
            data[at] ^= 1 << chooser.randrange(8)
        case 1:
            del data[at : at + 512]
        case 2:
            data[at:at] = data[at : at + 512 * chooser.randrange(1, 4)]
        case 3:
            data[at : at + 12] = b"%011o\0" % chooser.randrange(8**11)
        case _:
            del data[max(at, 1) :]
    # The same bytes by chance: then it ends too early.
    return bytes(data) if bytes(data) != _tar() else bytes(data[:-512])


def _places(chooser: random.Random) -> tuple[int, int, int]:
    """Anywhere, in any block, and where a block that is a header gives a size."""
    block = 512 * chooser.randrange(len(_tar()) // 512)
    return chooser.randrange(len(_tar())), block + chooser.randrange(512), block + 124
