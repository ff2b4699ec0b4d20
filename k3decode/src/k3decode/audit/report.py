"""What the audit says about one kernel: lines of text, or one line of JSON.

JSON, schema `k3decode.audit/1`: `file`, `kernel`, `architecture`, `decided_on` ("SASS" or "PTX"),
`declared`, `dependent_launch`, `loads` (how many reads of global memory there are by kind),
`waits`, and `findings`, each with `code`, `at` (byte offset in SASS, line in PTX), `text`,
`parameters`, `why`, `path` and `ptx`.
"""

import json
from dataclasses import dataclass

from k3decode.audit.declaration import Memory
from k3decode.audit.explain import explain
from k3decode.audit.program import Event
from k3decode.audit.rules import Audit, Finding

__all__ = ["SCHEMA", "KernelReport"]

SCHEMA = "k3decode.audit/1"
_SAFE = frozenset([Memory.STATIC, Memory.STATIC_TABLE])
_SETTLED = _SAFE | {Memory.SETTLED}


@dataclass(frozen=True)
class KernelReport:
    """One kernel of one file."""

    file: str
    audit: Audit
    ptx: Audit | None = None
    """Of the same kernel's PTX, to explain with."""

    def text(self) -> str:
        """Lines for a reader."""
        audit = self.audit
        count = len(audit.findings)
        verdict = "clean" if not count else f"{count} finding{'s' if count > 1 else ''}"
        kernel = audit.kernel
        lines = [
            f"{self.file}: {kernel.name} ({kernel.target}): {verdict}",
            f"  decided on {_decided_on(audit)}; {_launch(audit)}; {self._numbers()}",
        ]
        for finding in audit.findings:
            lines += self._finding(finding)
        return "\n".join(lines)

    def _numbers(self) -> str:
        loads = ", ".join(f"{count} {kind}" for kind, count in self.loads().items() if count)
        waits = ", ".join(f"{count} {kind}" for kind, count in self._waits().items() if count)
        return f"reads: {loads or 'none'}; waits: {waits or 'none'}"

    def _finding(self, finding: Finding) -> list[str]:
        place = _place(self.audit, finding.at)
        lines = [f"  {finding.code} at {place}: `{finding.text}`", f"    {finding.why}"]
        if finding.path:
            steps = " -> ".join(_place(self.audit, at) for at in finding.path)
            lines.append(f"    a path without a wait: {steps}")
        words = explain(finding, self.audit, self.ptx)
        return [*lines, f"    {words}"] if words else lines

    def record(self) -> str:
        """One line of JSON."""
        audit = self.audit
        return json.dumps(
            {
                "schema": SCHEMA,
                "file": self.file,
                "kernel": audit.kernel.name,
                "architecture": audit.kernel.target,
                "decided_on": audit.kernel.dialect,
                "declared": audit.facts.declared,
                "dependent_launch": audit.facts.dependent_launch,
                "loads": self.loads(),
                "waits": self._waits(),
                "findings": [
                    {
                        "code": finding.code,
                        "at": finding.at,
                        "text": finding.text,
                        "parameters": list(finding.parameters),
                        "why": finding.why,
                        "path": list(finding.path),
                        "ptx": explain(finding, audit, self.ptx),
                    }
                    for finding in audit.findings
                ],
            }
        )

    def loads(self) -> dict[str, int]:
        """How many reads of global memory there are of each kind."""
        loads = self.audit.loads
        static = [one for one in loads if one.memories and one.memories <= _SAFE]
        settled = [
            one for one in loads if one not in static and one.early and one.memories <= _SETTLED
        ]
        polls = sum(one.polls for one in loads)
        return {
            "static before a wait": sum(one.early for one in static),
            "static after a wait": sum(not one.early for one in static),
            "settled before a wait": len(settled),
            "polls": polls,
            "other": len(loads) - len(static) - len(settled) - polls,
        }

    def _waits(self) -> dict[str, int]:
        instructions = self.audit.kernel.instructions
        events = dict.fromkeys(Event, 0)
        for instruction in instructions:
            if instruction.event is not None:
                events[instruction.event] += 1
        return {
            Event.DEPENDENCY_WAIT.value: events[Event.DEPENDENCY_WAIT],
            Event.MBARRIER_TRY.value: events[Event.MBARRIER_TRY],
            "polling load": len(self.audit.waits.polls),
        }


def _place(audit: Audit, at: int) -> str:
    return f"{at:#06x}" if audit.kernel.dialect == "SASS" else f"line {at}"


def _decided_on(audit: Audit) -> str:
    if audit.kernel.dialect == "SASS":
        return "SASS"
    return "PTX alone (what an assembler moves is not seen)"


def _launch(audit: Audit) -> str:
    if not audit.facts.declared:
        return "no declaration: every parameter leads to activation memory"
    if audit.facts.dependent_launch:
        return "declared"
    return "declared as launched after its predecessors have ended"
