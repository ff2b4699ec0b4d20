"""All named defects. The list is the threat model of the verifier."""

from typing import Final

from k3bundle.archive import archive_bytes
from k3bundle_testing.archive_defects import ARCHIVE_DEFECTS
from k3bundle_testing.defect import Defect
from k3bundle_testing.json_defects import JSON_DEFECTS
from k3bundle_testing.machine_defects import MACHINE_DEFECTS
from k3bundle_testing.plan_defects import PLAN_DEFECTS
from k3bundle_testing.record_defects import RECORD_DEFECTS
from k3bundle_testing.seal_defects import SEAL_DEFECTS

__all__ = ["DEFECTS", "Defect", "defect_archive"]

DEFECTS: Final[tuple[Defect, ...]] = (
    *ARCHIVE_DEFECTS,
    *JSON_DEFECTS,
    *SEAL_DEFECTS,
    *RECORD_DEFECTS,
    *PLAN_DEFECTS,
    *MACHINE_DEFECTS,
)


def defect_archive(defect: Defect) -> bytes:
    """The bytes of the bad bundle file."""
    made = defect.make()
    return made if isinstance(made, bytes) else archive_bytes(made)
