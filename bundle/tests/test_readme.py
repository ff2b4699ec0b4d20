"""The README has a section for every file and every finding code, and for none that is gone."""

import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import get_args

from k3bundle import layout
from k3bundle.archive import read_archive
from k3bundle.finding import FindingCode
from k3bundle.schema_export import schema_files
from k3bundle.ustar import ArchiveLimits, read_ustar, write_ustar
from k3bundle_testing import example_signer

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_has_a_section_for_every_finding_code_and_file() -> None:
    files = {*layout.REQUIRED_FILES, *layout.OPTIONAL_FILES}
    files |= {layout.MANIFEST, layout.ATTESTATION, layout.LOG_PREFIX}
    found = re.findall(r"^### (.+)$", README, flags=re.MULTILINE)
    assert set(found) == files | set(get_args(FindingCode))
    assert len(found) == len(set(found))


def test_readme_links_every_schema() -> None:
    linked = set(re.findall(r"\(schema/([^)]+)\)", README))
    assert linked == set(schema_files())
    assert all((ROOT / "schema" / name).is_file() for name in linked)


def test_readme_links_exist() -> None:
    targets = [t for t in re.findall(r"\]\(([^)#]+)\)", README) if not t.startswith("http")]
    assert targets
    assert [t for t in targets if not (ROOT / t).exists()] == []


def test_readme_commands_check_a_bundle_by_hand(tmp_path: Path) -> None:
    """The Python of the two blocks is run as it stands; the programs where they are installed."""
    files = read_archive(ROOT / "tests" / "bundles" / "good_v1.k3b")
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    scripts = re.findall(r"python3 -c '(.+?)'(?: \| sha256sum -c)?\n", README, flags=re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        done = subprocess.run(
            ["python3", "-c", script], cwd=tmp_path, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "signed.bin").read_bytes().startswith(b"DSSEv1 28 ")
    if shutil.which("ssh-keygen"):
        (tmp_path / "allowed").write_text(f"somebody {example_signer().public_key}\n")
        line = next(x for x in README.splitlines() if x.startswith("ssh-keygen -Y verify"))
        done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


def test_gnu_tar_of_the_readme_is_canonical(tmp_path: Path) -> None:
    """The tar that the README describes is the tar of the archive."""
    files = {"b.json": b"{}", "a.jsonl": b"", "logs/x.log": b"y" * 600}
    ours = b"".join(write_ustar(files))
    with tarfile.open(fileobj=io.BytesIO(ours)) as tar:
        assert tar.getnames() == sorted(files)
    source = io.BytesIO(ours)
    read = {n: c for n, c in read_ustar(source.read, ArchiveLimits()) if c is not None}
    assert read == files
    if shutil.which("tar") and shutil.which("find"):
        (tmp_path / "run" / "logs").mkdir(parents=True)
        for name, content in files.items():
            (tmp_path / "run" / name).write_bytes(content)
        block = re.search(r"^find \. (?:.|\n)+?-T -$", README, flags=re.MULTILINE)
        assert block is not None
        subprocess.run(["sh", "-c", block.group()], cwd=tmp_path / "run", check=True)
        assert (tmp_path / "run.tar").read_bytes() == ours
