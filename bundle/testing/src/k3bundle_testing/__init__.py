"""Plausible runs, sealed bundles and named defects, for the tests of every part of k3-eval.

No number in here was measured. The records have the shape of a real run, nothing more. Sealed
bundles are in `k3bundle_testing.sealing`, named defects in `k3bundle_testing.defects`.
"""

from k3bundle_testing.example_run import Variation, files_of, good_records, good_run_files
from k3bundle_testing.signers import example_signer, other_signer, signer_fingerprint

__all__ = [
    "Variation",
    "example_signer",
    "files_of",
    "good_records",
    "good_run_files",
    "other_signer",
    "signer_fingerprint",
]
