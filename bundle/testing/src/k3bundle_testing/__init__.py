"""Plausible runs, sealed bundles and named defects, for the tests of every part of k3-eval.

No number in here was measured. The records have the shape of a real run, nothing more.
"""

from k3bundle_testing.example_run import Variation, files_of, good_records, good_run_files

__all__ = ["Variation", "files_of", "good_records", "good_run_files"]
