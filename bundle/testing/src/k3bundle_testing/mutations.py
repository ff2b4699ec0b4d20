"""Seeded mutations of a good bundle. Every one of them must be refused, none with a traceback.

The kinds go from clumsy to careful: bytes of the bundle file; content of a file inside; that with
digests made right; and, with digests and signature made right, an edited verdict, an edited plan, a
lost or doubled line of the journal or of a kernel package, or a signer whom nobody knows. What
cannot be told from an honest run, such as other times in records that are sealed anew, is not among
them.

Usage: python -m k3bundle_testing.mutations COUNT
"""

import json
import random
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from k3bundle import layout
from k3bundle.archive import read_archive_bytes
from k3bundle.bundle import parse_records
from k3bundle.canonical import canonical_json, plan_sha256, sha256_hex
from k3bundle.derive import derive
from k3bundle.errors import BundleError
from k3bundle.finding import Finding
from k3bundle.manifest import BundleFile, Manifest
from k3bundle.policy import Policy
from k3bundle.seal import assemble
from k3bundle.verify import verify
from k3bundle_testing.defect import changed, good_files, good_verdict, resealed
from k3bundle_testing.example_kernels import good_kernel_records
from k3bundle_testing.example_run import files_of, good_records
from k3bundle_testing.sealing import SEALED_AT_UTC, sealed_archive, sealed_bundle
from k3bundle_testing.signers import example_signer, other_signer, signer_fingerprint

__all__ = ["KINDS", "Mutation", "judge", "main", "mutate"]

_ODD: Final[tuple[Any, ...]] = (
    None, True, -1, 2**53 - 1, 10**30, 1e308, -0.5, "", "x" * 3000, [], {}, [[]], {"a": 1},
    "\u202e", "9" * 64, "boot-0.0", float("nan"), "PASS", "baseline",
)  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """One tampered bundle."""

    kind: str
    """How it was tampered with."""
    bundle: bytes | Mapping[str, bytes]
    """The bytes of a bundle file, or the files inside."""
    policy: Policy = field(default_factory=Policy)
    """What its reader demands."""


def mutate(seed: int) -> Mutation:
    """The mutation of a number; equal numbers give equal mutations."""
    chooser = random.Random(seed)  # noqa: S311
    kind = list(KINDS)[seed % len(KINDS)]
    return KINDS[kind](chooser)


def judge(mutation: Mutation) -> tuple[Finding, ...]:
    """The findings of a verifier; none when it accepts."""
    files = mutation.bundle
    if isinstance(files, bytes):
        try:
            files = read_archive_bytes(files)
        except BundleError as error:
            return error.findings
    return verify(files, mutation.policy).findings


@cache
def _sealed() -> Mapping[str, bytes]:
    return sealed_bundle()


@cache
def _archive() -> bytes:
    return sealed_archive()


def _archive_bytes(chooser: random.Random) -> Mutation:
    data = bytearray(_archive())
    while bytes(data) == _archive():
        at = chooser.randrange(len(data))
        end = min(len(data), at + chooser.randrange(1, 400))
        match chooser.randrange(5):
            case 0:
                data[at] ^= 1 << chooser.randrange(8)
            case 1:
                del data[at:]
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = data[at:end]
            case _:
                data += chooser.randbytes(chooser.randrange(1, 64))
    return Mutation("archive_bytes", bytes(data))


def _content(chooser: random.Random) -> Mutation:
    name, content = _edited_file(chooser, _sealed())
    return Mutation("content", {**_sealed(), name: content})


def _content_and_digests(chooser: random.Random) -> Mutation:
    outside = {layout.MANIFEST, layout.ATTESTATION}
    listed = {name: data for name, data in _sealed().items() if name not in outside}
    name, content = _edited_file(chooser, listed)
    listed[name] = content
    manifest = Manifest.model_validate_json(_sealed()[layout.MANIFEST])
    entries = tuple(
        BundleFile(path=path, size_bytes=len(data), sha256=sha256_hex(data))
        for path, data in sorted(listed.items())
    )
    root = canonical_json(changed(manifest, files=entries))
    return Mutation("content_and_digests", {**_sealed(), **listed, layout.MANIFEST: root})


def _verdict(chooser: random.Random) -> Mutation:
    """Everything is signed again, and the stored verdict says something else."""
    content = _changed_value(canonical_json(good_verdict()), chooser)
    try:
        verdict = type(good_verdict()).model_validate_json(content)
    except ValueError:
        # No record at all; then only the digests are made right.
        files = {**_sealed(), layout.VERDICT: content}
        return Mutation("verdict", files)
    return Mutation("verdict", resealed(good_files(), verdict))


def _plan(chooser: random.Random) -> Mutation:
    """Another plan, run and sealed as it should be; the reader knows the plan that counts."""
    policy = Policy(allowed_plans=frozenset({plan_sha256(good_records().plan)}))
    raw = {**good_files(), layout.PLAN: _changed_value(good_files()[layout.PLAN], chooser)}
    try:
        records = parse_records(raw)
    except BundleError:
        return Mutation("plan", resealed(raw), policy)
    run = changed(records.run, plan_sha256=plan_sha256(records.plan))
    return Mutation("plan", resealed({**raw, layout.RUN: canonical_json(run)}), policy)


def _journal_line(chooser: random.Random) -> Mutation:
    """A line of the journal is lost or doubled, and everything is sealed again."""
    name = chooser.choice([layout.ATTEMPTS, layout.BOOTS, layout.CELLS, layout.REQUESTS])
    lines = good_files()[name].split(b"\n")[:-1]
    at = chooser.randrange(len(lines))
    if chooser.randrange(2):
        lines.insert(at, lines[at])
    elif name == layout.BOOTS:
        # A killed boot may lack the line that it stopped, so only the start is lost.
        del lines[at - at % 3]
    else:
        del lines[at]
    raw = {**good_files(), name: b"".join(line + b"\n" for line in lines)}
    return Mutation("journal_line", resealed(raw, good_verdict()))


def _kernel_line(chooser: random.Random) -> Mutation:
    """A line of a kernel package is lost, doubled or worse than the stored verdict says."""
    records = good_kernel_records()
    raw = files_of(records)
    lines = raw[layout.KERNELS].split(b"\n")[:-1]
    at = chooser.randrange(len(lines))
    match chooser.randrange(3):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[at])
        case _:
            lines[at] = _worse(json.loads(lines[at]), chooser)
    raw[layout.KERNELS] = b"".join(line + b"\n" for line in lines)
    verdict = derive(records)
    return Mutation("kernel_line", assemble(raw, records, verdict, example_signer(), SEALED_AT_UTC))


def _worse(line: dict[str, Any], chooser: random.Random) -> bytes:
    """The line with one value that the verdict follows from."""
    changes: dict[str, dict[str, Any]] = {
        "case": {"outcome": chooser.choice(["failed", "errored"])},
        "audit": {"findings": [{"code": "before-wait", "at": 16, "why": "It comes early."}]},
        "timing": {"latency_us": line.get("latency_us", 1.0) * 1.5},
        "command": {"exit_code": 1},
    }
    return canonical_json({**line, **changes[line["kind"]]})


def _stranger(chooser: random.Random) -> Mutation:
    """Good records of another nonce, sealed with a key that the reader does not know."""
    records = good_records(nonce=chooser.randbytes(32).hex())
    bundle = assemble(files_of(records), records, derive(records), other_signer(), SEALED_AT_UTC)
    known = frozenset({signer_fingerprint()})
    return Mutation("stranger", bundle, Policy(allowed_signers=known))


KINDS: Final[dict[str, Callable[[random.Random], Mutation]]] = {
    "archive_bytes": _archive_bytes,
    "content": _content,
    "content_and_digests": _content_and_digests,
    "verdict": _verdict,
    "plan": _plan,
    "journal_line": _journal_line,
    "kernel_line": _kernel_line,
    "stranger": _stranger,
}
"""Kind -> how it is made."""


def _edited_file(chooser: random.Random, files: Mapping[str, bytes]) -> tuple[str, bytes]:
    """Another content for one of the files."""
    name = chooser.choice(sorted(files))
    content = files[name]
    if content.startswith(b"{") and chooser.random() < 0.7:  # noqa: PLR2004
        lines = content.split(b"\n")
        at = chooser.choice([i for i, line in enumerate(lines) if line])
        lines[at] = _changed_value(lines[at], chooser)
        return name, b"\n".join(lines)
    data = bytearray(content)
    at = chooser.randrange(len(data))
    match chooser.randrange(3):
        case 0:
            data[at] ^= 1 << chooser.randrange(8)
        case 1:
            del data[at:]
        case _:
            data[at:at] = chooser.randbytes(chooser.randrange(1, 16))
    return name, bytes(data)


def _changed_value(content: bytes, chooser: random.Random) -> bytes:
    """JSON with one leaf that means something else, or one entry of a list less."""
    record = json.loads(content)
    while True:
        key = chooser.choice(list(record) if isinstance(record, dict) else range(len(record)))
        places = [(record, key)]
        while (inner := places[-1][0][places[-1][1]]) and isinstance(inner, dict | list):
            if isinstance(inner, list) and chooser.random() < 0.1:  # noqa: PLR2004
                break
            names = list(inner) if isinstance(inner, dict) else range(len(inner))
            places.append((inner, chooser.choice(names)))
        place, key = places[-1]
        old = place[key]
        place[key] = old[:-1] if isinstance(old, list) and old else _other(old, chooser)
        return json.dumps(record, separators=(",", ":")).encode()


def _other(old: Any, chooser: random.Random) -> Any:
    if isinstance(old, int | float) and not isinstance(old, bool) and chooser.randrange(2):
        return old + 1 if isinstance(old, int) else old * 1.01 + 0.001
    # An empty list stands for no entries, and 1 is True to Python.
    return chooser.choice([odd for odd in _ODD if odd != old and type(odd) is not type(old)])


def main(arguments: list[str]) -> int:
    """Judge the first mutations.

    Returns:
        0 when all were refused, 1 when one was accepted or ended in a traceback, 2 on wrong usage.
    """
    if len(arguments) != 1 or not arguments[0].isdigit():
        sys.stderr.write("Usage: python -m k3bundle_testing.mutations COUNT\n")
        return 2
    bad = 0
    for seed in range(int(arguments[0])):
        try:
            accepted = not judge(mutate(seed))
        except Exception:
            sys.stderr.write(f"Mutation {seed} ended in a traceback:\n{traceback.format_exc()}")
            bad += 1
            continue
        if accepted:
            sys.stderr.write(f"Mutation {seed} ({mutate(seed).kind}) was accepted.\n")
            bad += 1
    sys.stdout.write(f"{arguments[0]} mutated bundles, {bad} accepted or with a traceback.\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
