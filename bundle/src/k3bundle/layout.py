"""File names inside a bundle and inside a run folder. Nobody else spells them.

A run folder holds the same files while the run goes on; sealing adds the manifest, the verdict
and the attestation.
"""

from typing import Final

__all__ = [
    "ATTEMPTS",
    "ATTESTATION",
    "BOOTS",
    "BUNDLE_SUFFIX",
    "CELLS",
    "COUNTERS",
    "COVERAGE",
    "EARLIER",
    "ENVIRONMENT",
    "GRAPHS",
    "ISOLATION",
    "KERNELS",
    "LOG_PREFIX",
    "MANIFEST",
    "OPTIONAL_FILES",
    "PLAN",
    "REQUESTS",
    "REQUIRED_FILES",
    "RUN",
    "SCRUB_REPORT",
    "SEPARATION",
    "SUBJECT",
    "TELEMETRY",
    "VERDICT",
]

MANIFEST: Final = "manifest.json"
ATTESTATION: Final = "attestation.dsse.json"
RUN: Final = "run.json"
PLAN: Final = "plan.json"
SUBJECT: Final = "subject.json"
ENVIRONMENT: Final = "environment.json"
ATTEMPTS: Final = "attempts.jsonl"
BOOTS: Final = "boots.jsonl"
CELLS: Final = "cells.jsonl"
REQUESTS: Final = "requests.jsonl"
COVERAGE: Final = "coverage.jsonl"
COUNTERS: Final = "counters.jsonl"
TELEMETRY: Final = "telemetry.jsonl"
EARLIER: Final = "earlier.json"
GRAPHS: Final = "graphs.jsonl"
SEPARATION: Final = "separation.jsonl"
ISOLATION: Final = "isolation.json"
KERNELS: Final = "kernels.jsonl"
VERDICT: Final = "verdict.json"
SCRUB_REPORT: Final = "scrub.json"
LOG_PREFIX: Final = "logs/"
BUNDLE_SUFFIX: Final = ".k3b"

REQUIRED_FILES: Final = (
    ATTEMPTS,
    BOOTS,
    CELLS,
    COUNTERS,
    COVERAGE,
    ENVIRONMENT,
    PLAN,
    REQUESTS,
    RUN,
    SCRUB_REPORT,
    SUBJECT,
    VERDICT,
)
"""Files that every manifest must list; logs/ may add more."""

OPTIONAL_FILES: Final = (EARLIER, GRAPHS, ISOLATION, KERNELS, SEPARATION, TELEMETRY)
"""Files that a bundle may lack: what they would show is then not known."""
