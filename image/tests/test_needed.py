"""What a machine lacks for images is one sentence, before anything is built."""

import os
from pathlib import Path

import pytest

from k3image.needed import mount_refusal, require_machine
from k3image.problem import ImageError


def test_all_missing_programs_are_named_at_once(tmp_path: Path) -> None:
    there = {"dpkg-deb", "unshare", "hostname", "runc"}
    with pytest.raises(ImageError, match="mmdebstrap, podman, skopeo, which") as refused:
        require_machine(tmp_path, find=lambda name: name if name in there else None)
    assert "apt-get install mmdebstrap podman skopeo" in str(refused.value)
    assert refused.value.exit_code == 5


def test_a_machine_that_allows_no_mounts_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"does not let root mount layers .* said: no\. Next: use"):
        require_machine(tmp_path / "new", find=lambda name: name, refusal=lambda _: "no")
    require_machine(tmp_path / "new", find=lambda name: name, refusal=lambda _: None)


def test_the_trial_leaves_nothing_and_says_why_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = mount_refusal(tmp_path)
    # Who may do all this is told nothing; who may not is told by the program that was refused.
    assert refused is None or "permitted" in refused or os.geteuid() != 0
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "bin").mkdir()
    for name, text in (("unshare", "#!/bin/sh\necho unshare: refused >&2\nexit 1\n"),):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    assert mount_refusal(tmp_path) == "unshare: refused"
