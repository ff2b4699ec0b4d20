"""Writes the committed bundle files: one good one, and bad ones named for their defect.

Usage: python -m k3bundle_testing.write_fixtures FOLDER

`good_v1.k3b` is written only where it is missing: once released it must verify for ever as it is.
Its digest is written beside it, so that nobody replaces it without saying so.
"""

import sys
from pathlib import Path
from typing import Final

from k3bundle.archive import read_archive
from k3bundle.seal import bundle_sha256
from k3bundle_testing.defects import DEFECTS, defect_archive
from k3bundle_testing.sealing import sealed_archive

__all__ = ["FIXTURE_DEFECTS", "GOOD_FIXTURE", "main"]

GOOD_FIXTURE: Final = "good_v1.k3b"

FIXTURE_DEFECTS: Final = (
    "attestation_edited",
    "attestation_missing",
    "attestation_of_another_bundle",
    "boot_slot_out_of_plan",
    "byte_flipped_in_requests",
    "bytes_added_at_the_end",
    "cell_out_of_plan",
    "commit_other_in_manifest",
    "commit_short",
    "file_cut_at_1536_bytes",
    "file_extra",
    "file_missing",
    "headline_number_edited",
    "integer_beyond_2_53",
    "key_twice",
    "lone_surrogate",
    "manifest_not_canonical",
    "member_symbolic_link",
    "nesting_deep",
    "nonce_other_in_manifest",
    "number_infinity",
    "number_nan",
    "number_overflow",
    "path_right_to_left",
    "path_traversal",
    "plan_edited_after_the_run",
    "plan_schema_with_slow_pattern",
    "prompt_differs_between_boots",
    "request_dropped_and_count_fixed",
    "schema_version_of_the_future",
    "secret_token_in_a_log",
    "statement_of_another_verdict",
    "tar_cut_at_1536_bytes",
    "verdict_green_with_all_skipped",
    "verdict_hides_that_stock_was_measured",
    "zip_bomb",
)
"""Defects that are also committed as files. All are refused under the empty policy."""


def main(arguments: list[str]) -> int:
    """Write the fixtures into the folder named by the only argument."""
    if len(arguments) != 1:
        sys.stderr.write("Usage: python -m k3bundle_testing.write_fixtures FOLDER\n")
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    good = folder / GOOD_FIXTURE
    if not good.exists():
        good.write_bytes(sealed_archive())
        digest = bundle_sha256(read_archive(good))
        good.with_suffix(".sha256").write_text(digest + "\n", encoding="ascii")
    defects = {defect.name: defect for defect in DEFECTS}
    for name in FIXTURE_DEFECTS:
        (folder / f"bad_{name}.k3b").write_bytes(defect_archive(defects[name]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
