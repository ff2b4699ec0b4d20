"""`k3-registry collect`, `verify-store` and `export`: what an operator does with the store.

They may run beside a registry on the same database and store.
"""

import argparse
import sys
from pathlib import Path

from k3server.adapters.sql.blob_ledger import SqlBlobLedger
from k3server.adapters.sql.index import SqlIndex
from k3server.adapters.system_clock import SystemClock
from k3server.commands.storage import add_storage_flags, database_of, folder_error, store_of
from k3server.exit_code import ExitCode
from k3server.export import export
from k3server.settings import Settings
from k3server.upkeep import collect_garbage, verify_store

__all__ = [
    "add_collect_flags",
    "add_export_flags",
    "add_verify_flags",
    "run_collect",
    "run_export",
    "run_verify",
]


def add_collect_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `collect`."""
    add_storage_flags(parser)
    parser.add_argument(
        "--keep-hours",
        type=float,
        default=Settings(public_url="").garbage_age_s / 3600,
        help="age up to which an archive without a submission stays (%(default)s)",
    )


def run_collect(chosen: argparse.Namespace) -> int:
    """Remove archives that nobody named."""
    with database_of(chosen) as database:
        collected = collect_garbage(
            store_of(chosen),
            SqlBlobLedger(database),
            now=SystemClock().now(),
            keep_s=chosen.keep_hours * 3600,
        )
    sys.stdout.write(
        f"removed {collected.blobs} archives and parts of {collected.size_bytes} bytes, "
        f"{collected.uploads} expired uploads, {collected.leftovers} interrupted writes\n"
    )
    return ExitCode.CLEAN


def add_verify_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `verify-store`."""
    add_storage_flags(parser)


def run_verify(chosen: argparse.Namespace) -> int:
    """Hash every archive again; a line on stdout for each that is not as it should be."""
    intact = broken = 0
    with database_of(chosen) as database:
        for report in verify_store(store_of(chosen), SqlIndex(database)):
            if report.state == "intact":
                intact += 1
                continue
            broken += 1
            sys.stdout.write(f"{report.state} {report.blob_sha256} of {report.bundle_sha256}\n")
    sys.stderr.write(f"k3-registry: {intact} archives are intact, {broken} are not.\n")
    return ExitCode.DAMAGE if broken else ExitCode.CLEAN


def add_export_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `export`."""
    add_storage_flags(parser)
    parser.add_argument("--out", type=Path, required=True, help="folder that the files go to")
    parser.add_argument(
        "--format", choices=("jsonl", "parquet"), default="jsonl", help="(%(default)s)"
    )


def run_export(chosen: argparse.Namespace) -> int:
    """Write everything public to files; a line on stdout for each."""
    with database_of(chosen) as database:
        try:
            written = export(SqlIndex(database), chosen.out, form=chosen.format)
        except OSError as error:
            raise folder_error(chosen.out, error) from None
    for name, rows in written.items():
        sys.stdout.write(f"{chosen.out / name} {rows} rows\n")
    return ExitCode.CLEAN
