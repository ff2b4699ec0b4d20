"""Commands of an operator, on the folder and on PostgreSQL with an object store."""

import json
from pathlib import Path

import pytest

from k3bundle.canonical import sha256_hex
from k3bundle_testing.example_plan import EXAMPLE_CHANGE
from k3bundle_testing.sealing import sealed_archive
from k3server.cli import main
from k3server.exit_code import ExitCode
from k3server_testing.process import RegistryProcess
from k3server_testing.services.object_stores import BUCKET, SeaweedStore
from k3server_testing.services.postgresql import PASSWORD, PostgresqlServer

ARCHIVE = sealed_archive()
DIGEST = sha256_hex(ARCHIVE)


@pytest.fixture
def flags(
    postgresql: PostgresqlServer, seaweed: SeaweedStore, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, ...]:
    """Flags for PostgreSQL and the object store; the password comes from the environment."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    url = postgresql.new_database()
    return (
        f"--database=postgresql://{url.username}@{url.host}:{url.port}/{url.database}",
        f"--s3-bucket={BUCKET}",
        f"--s3-endpoint={seaweed.location.endpoint}",
        f"--s3-public-endpoint={seaweed.location.endpoint}",
    )


def test_registry_on_postgresql_and_object_store_survives_kill(
    tmp_path: Path, flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    data = [f"--data={tmp_path}", *flags]
    with RegistryProcess(tmp_path, *flags) as registry, registry.client() as client:
        client.put(f"/api/v1/blobs/{DIGEST}", content=ARCHIVE).raise_for_status()
        claim = {"blob_sha256": DIGEST, **EXAMPLE_CHANGE.model_dump()}
        made = client.post("/api/v1/submissions", json=claim)
        assert made.status_code == 201, made.text
        registry.kill()
    with RegistryProcess(tmp_path, *flags) as registry, registry.client() as client:
        url = f"/api/v1/submissions/{made.json()['submission_id']}"
        assert client.get(url).json()["verdict"] == made.json()["verdict"]
        redirect = client.get(f"{url}/bundle")
        assert redirect.status_code == 307
        assert client.get(f"{url}/bundle", follow_redirects=True).content == ARCHIVE
    assert not (tmp_path / "registry.sqlite3").exists()
    assert main(["verify-store", *data]) == ExitCode.CLEAN
    assert main(["collect", "--keep-hours=0", *data]) == ExitCode.CLEAN
    assert main(["export", f"--out={tmp_path / 'out'}", "--format=parquet", *data]) == 0
    assert (tmp_path / "out" / "submissions.parquet").stat().st_size > 100
    assert "1 archives are intact, 0 are not" in capsys.readouterr().err


def test_verify_store_with_a_missing_archive_exits_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with RegistryProcess(tmp_path) as registry, registry.client() as client:
        client.put(f"/api/v1/blobs/{DIGEST}", content=ARCHIVE).raise_for_status()
        claim = {"blob_sha256": DIGEST, **EXAMPLE_CHANGE.model_dump()}
        made = client.post("/api/v1/submissions", json=claim).json()
        # Both may run beside a registry that is at work.
        assert main(["verify-store", f"--data={tmp_path}"]) == ExitCode.CLEAN
        assert main(["export", f"--data={tmp_path}", f"--out={tmp_path / 'out'}"]) == 0
    (line,) = (tmp_path / "out" / "submissions.jsonl").read_text().splitlines()
    assert json.loads(line)["submission_id"] == made["submission_id"]
    (tmp_path / "blobs" / "cas" / DIGEST[:2] / DIGEST).unlink()
    assert main(["verify-store", f"--data={tmp_path}"]) == ExitCode.DAMAGE
    assert f"missing {DIGEST} of {made['submission_id']}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--database=mysql://k3@127.0.0.1/k3", "an address like postgresql://"),
        ("--database=postgresql://k3:secret@127.0.0.1/k3", "set PGPASSWORD instead"),
    ],
)
def test_database_that_is_no_postgresql_or_shows_a_password_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str, words: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["collect", f"--data={tmp_path}", flag])
    assert caught.value.code == ExitCode.USAGE
    said = capsys.readouterr().err
    assert words in said
    assert "secret" not in said


def test_absent_database_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["collect", f"--data={tmp_path}", "--database=postgresql://k3@127.0.0.1:1/k3"])
    assert status == ExitCode.ENVIRONMENT
    assert "Start it, or check --database and PGPASSWORD." in capsys.readouterr().err


def test_token_is_shown_once_and_can_be_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = f"--data={tmp_path}"
    assert main(["token", data, "--for=lab", "--organisation=university"]) == ExitCode.CLEAN
    text = capsys.readouterr().out.strip()
    assert main(["token", data, "--list"]) == ExitCode.CLEAN
    (line,) = capsys.readouterr().out.splitlines()
    token_id, account, organisation, scopes, _, state = line.split("\t")
    assert text.startswith(f"k3r_{token_id}_")
    assert text.split("_")[2] not in line
    assert (account, organisation, scopes, state) == ("lab", "university", "claim,submit", "works")
    assert main(["token", data, f"--revoke={token_id}"]) == ExitCode.CLEAN
    assert main(["token", data, f"--revoke={token_id}"]) == ExitCode.USAGE
    main(["token", data, "--list"])
    assert capsys.readouterr().out.endswith("ended\n")


def test_decisions_are_logged_with_their_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = f"--data={tmp_path}"
    assert main(["decide", data, "ban", "github:mallory", "--reason=Forged."]) == ExitCode.CLEAN
    assert main(["decide", data, "ban", "github:mallory"]) == ExitCode.USAGE
    assert main(["decide", data, "retract", "00" * 32, "--reason=x"]) == ExitCode.USAGE
    capsys.readouterr()
    assert main(["decide", data, "log"]) == ExitCode.CLEAN
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split("\t")[2:] == ["ban", "github:mallory", "Forged."]
    assert "operator:" in line


@pytest.mark.parametrize(
    "words",
    [
        ("decide", "ban", "evil", "--reason=x"),
        ("decide", "ban", "github:Mallory", "--reason=x"),
        ("decide", "unban", "key:SHA256:short", "--reason=x"),
        ("decide", "retract", "00" * 32, "--reason=one\ntwo\tthree"),
        ("decide", "retract", "00" * 32, "--reason= "),
        ("token", "--for=bob", "--days=0"),
        ("token", "--for=bob", "--days=-1"),
        ("token", "--for=bob", "--days=99999999"),
        ("token", "--for=bob", "--days=" + "9" * 5000),
    ],
)
def test_what_would_do_nothing_or_forge_the_log_is_refused(
    tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    command, *more = words
    code: object
    try:
        code = main([command, f"--data={tmp_path}", *more])
    except SystemExit as ended:
        code = ended.code
    assert code == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "xpected" in captured.err
