"""A kernel package that needs no GPU: `python -m k3runner_testing.fake_kernels TASK ...`.

It answers in the form of the adapter's contract. What it does wrong is said by `--defect`.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

__all__ = ["FAKE_OPS", "FAKE_TOKEN", "main", "write_fake_package"]

FAKE_OPS: Final = ("attn_res", "router")
FAKE_TOKEN: Final = "hf_" + "a1B2" * 8
"""Looks like a token of somebody."""
_GROUPS: Final = ("smoke", "corner", "production")
_DEFECTS: Final = (
    *("none", "wrong_case", "early_read", "leaves_out_an_op", "too_fast", "hangs", "crashes"),
    *("another_version", "chatters", "no_field", "writes_elsewhere"),
    *("other_commit", "tells_a_token", "never_ends"),
    *("token_in_case", "token_in_name", "token_in_op", "tells_on_stderr"),
)


def main(arguments: list[str]) -> int:
    """Answers one task; returns the exit code."""
    parser = argparse.ArgumentParser(prog="fake_kernels")
    parser.add_argument("task", choices=["check", "audit", "bench"])
    parser.add_argument("--commit", required=True)
    parser.add_argument("--defect", choices=_DEFECTS, default="none")
    parser.add_argument("--target")
    options = parser.parse_args(arguments)
    defect = options.defect
    if defect == "hangs":
        time.sleep(600)
    if defect == "crashes":
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    if defect == "tells_on_stderr":
        print(f"fatal: {FAKE_TOKEN} in /home/alice/x", file=sys.stderr)
        return 3
    if defect == "writes_elsewhere":
        Path(options.target).write_text("forged\n")
    if defect == "chatters":
        print("compiling 13 ops\n\n{not json")
    while defect == "never_ends":
        print("x" * 1_000_000)
    commit = "f" * 40 if defect == "other_commit" else options.commit
    token = {"hub": f"logged in with {FAKE_TOKEN}"} if defect == "tells_a_token" else {}
    version = 2 if defect == "another_version" else 1
    for line in _lines(options.task, defect):
        schema = f"fake_kernels.{options.task}/{version}"
        facts = {"gpu": "NVIDIA GB300", "commit": commit, "torch": "2.11.0", **token}
        print(json.dumps({"schema": schema, **line, **facts, **_told(defect, line)}), flush=True)
    if token:
        print(json.dumps(token)[:-2])
    bad = {("check", "wrong_case"), ("audit", "early_read")}
    print("done", file=sys.stderr)
    return 1 if (options.task, defect) in bad else 0


def _told(defect: str, line: dict[str, Any]) -> dict[str, str]:
    """A token at a place that is no sentence."""
    return {
        "token_in_case": {"case": f"{line.get('case')} {FAKE_TOKEN}"},
        "token_in_op": {"op": FAKE_TOKEN.lower()},
        "token_in_name": {f"key {FAKE_TOKEN}": "a word"},
    }.get(defect, {})


def _lines(task: str, defect: str) -> Iterator[dict[str, Any]]:
    ops = FAKE_OPS[:1] if defect == "leaves_out_an_op" else FAKE_OPS
    for number, op in enumerate(ops):
        last = number == len(ops) - 1
        if task == "check":
            for group in _GROUPS:
                yield _case(op, group, wrong=last and defect == "wrong_case" and group == "corner")
        elif task == "audit":
            yield _audit(op, early=last and defect == "early_read")
        else:
            yield _timing(op, defect if last else "none")


def _case(op: str, group: str, *, wrong: bool) -> dict[str, Any]:
    return {
        "op": op,
        "case": f"{group}_m1",
        "group": group,
        "outcome": "failed" if wrong else "passed",
        "worst": 9.5 if wrong else 0.25,
        "sentences": ["out: expected 1, found 2 at [0, 5]"] if wrong else [],
    }


def _audit(op: str, *, early: bool) -> dict[str, Any]:
    finding = {
        "code": "before-wait",
        "at": 16,
        "text": "LDG.E R2, [R4]",
        "parameters": ["activation"],
        "why": "A path leads to this read of activation memory without a wait.",
        "path": [0, 16],
        "ptx": None,
    }
    return {
        "file": f"{op}.cubin",
        "kernel": f"kernel_{op}",
        "architecture": "sm_103a",
        "decided_on": "SASS",
        "declared": True,
        "dependent_launch": True,
        "loads": {"other": 3},
        "waits": {"griddepcontrol.wait": 1},
        "findings": [finding] if early else [],
    }


def _timing(op: str, defect: str) -> dict[str, Any]:
    line: dict[str, Any] = {
        "op": op,
        "case": "tp8_m1",
        "latency_us": 2.0 if defect == "too_fast" else 25.0,
        "spread_us": 1.5,
        "bandwidth_gb_per_s": 2000.0,
        "roofline_us": 10.0,
        "sol_fraction": 0.4,
        "read_bytes": 48_000_000,
        "write_bytes": 2_000_000,
        "copies": 5,
        "cold": True,
        "read_us": 20,
        "read_ratio": 1.25,
        "facts": {},
    }
    if defect == "no_field":
        del line["latency_us"]
    return line


def write_fake_package(
    folder: Path, *, defects: dict[str, str] | None = None, target: Path | None = None
) -> Path:
    """Writes a subject that is this package alone.

    Args:
        folder: Where to.
        defects: Task -> what it does wrong.
        target: File that a package writes to which does so.
    """
    lines = [
        'name = "fake-kernels"',
        'limits = ["A fake."]',
        "[kernels]",
        'distribution = "k3-runner-testing"',
        f"ops = {json.dumps(FAKE_OPS)}",
    ]
    for task in ("check", "audit", "bench"):
        words = ["-m", "k3runner_testing.fake_kernels", task, "--commit", "{commit}"]
        words += ["--defect", (defects or {}).get(task, "none")]
        words += ["--target", str(target)] if target else []
        lines.append(f"{task} = {json.dumps(words)}")
    lines += ["[scope]", 'compute_capabilities = ["10.3"]']
    path = folder / "fake-kernels.toml"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
