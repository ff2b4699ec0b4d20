"""The servers of `make serve-full`: what each is started with, and how it is known to be ready.

PostgreSQL's programs come from the machine; object store and proxy from the environment `services`.
Everything listens on loopback only.
"""

import http.client
import json
import os
import pwd
import secrets
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from k3house.child import run_tool
from k3house.place import env_script
from k3house.problem import HouseError

__all__ = [
    "BUCKET",
    "DATABASE",
    "USER",
    "Secrets",
    "caddy_file",
    "check_programs",
    "database_answers",
    "free_port",
    "make_cluster",
    "postgresql_command",
    "proxy_command",
    "read_secrets",
    "store_answers",
    "store_command",
]

USER = "k3"
DATABASE = "postgres"
BUCKET = "k3-evidence"
_HOST = "127.0.0.1"
_SERVER_USER = "postgres"
_GRPC_OFFSET = 10_000
_ASK_S = 2.0
_LARGEST_BODY_MB = 80


@dataclass(frozen=True)
class Secrets:
    """Passwords of one stack, made at its first start."""

    database: str
    access_key: str
    secret_key: str


def read_secrets(folder: Path) -> Secrets:
    """The secrets of the stack in this folder; made when there are none."""
    path = folder / "secrets.json"
    if not path.exists():
        made = {
            "database": secrets.token_hex(24),
            "access_key": secrets.token_hex(10).upper(),
            "secret_key": secrets.token_hex(24),
        }
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(made, file)
    return Secrets(**json.loads(path.read_text()))


def free_port(beside: int = 0) -> int:
    """A port of loopback that nothing listens on; with `beside`, the one so much above is free."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind((_HOST, 0))
            port = int(one.getsockname()[1])
            try:
                if beside:
                    other.bind((_HOST, port + beside))
            except (OSError, OverflowError):
                continue
            return port


def make_cluster(folder: Path, password: str) -> None:
    """Make PostgreSQL's files in `folder`, unless they are there.

    Raises:
        HouseError: The machine has no PostgreSQL, or its user cannot reach the folder.
    """
    data = folder / "data"
    if (data / "PG_VERSION").exists():
        return
    initdb = _postgresql_program("initdb")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(data, ignore_errors=True)
    password_file = folder / "password"
    password_file.write_text(password)
    if os.getuid() == 0:
        _check_reachable(folder)
        for path in (folder, password_file):
            shutil.chown(path, _SERVER_USER, _SERVER_USER)
    password_file.chmod(0o600)
    try:
        run_tool(
            [
                *_as_server_user(initdb),
                *("-D", data, "-A", "scram-sha-256", "-U", USER, "-E", "UTF8"),
                *("--locale=C.UTF-8", f"--pwfile={password_file}"),
            ],
            log="serve-full",
            working_folder=Path("/"),
        )
    finally:
        password_file.unlink()


def _check_reachable(folder: Path) -> None:
    closed = [str(parent) for parent in folder.parents if not parent.stat().st_mode & 0o001]
    if closed:
        raise HouseError(
            f"PostgreSQL runs as the user {_SERVER_USER}, who cannot enter {closed[-1]}.",
            f"open it for passing through: chmod o+x {closed[-1]}",
        )


def postgresql_command(folder: Path, port: int) -> list[str | Path]:
    """The command of the database server."""
    return [
        *_as_server_user(_postgresql_program("postgres")),
        *("-D", folder / "data", "-p", str(port), "-k", ""),
        *("-c", f"listen_addresses={_HOST}"),
    ]


def _as_server_user(program: Path) -> list[str | Path]:
    if os.getuid() != 0:
        return [program]
    as_user = (f"--reuid={_SERVER_USER}", f"--regid={_SERVER_USER}", "--clear-groups")
    return ["setpriv", *as_user, "--", program]


def _postgresql_program(name: str) -> Path:
    # Debian keeps the server's programs out of PATH, in a folder per version.
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    on_path = shutil.which(name)
    if found:
        return found[-1]
    if on_path is None:
        raise HouseError(
            f"PostgreSQL's program {name} was not found.",
            "on Debian or Ubuntu: apt-get install postgresql, then run the same command again.",
        )
    return Path(on_path)


def store_command(folder: Path, port: int, keys: Secrets) -> list[str | Path]:
    """The command of the object store; its configuration is written beside its data."""
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    config = folder / "s3.json"
    config.touch(mode=0o600)
    identity = {
        "name": USER,
        "credentials": [{"accessKey": keys.access_key, "secretKey": keys.secret_key}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    config.write_text(json.dumps({"identities": [identity]}))
    master, volume, filer = (free_port(_GRPC_OFFSET) for _ in range(3))
    return [
        *(env_script("services", "weed"), "-logtostderr=true", "server", f"-dir={data}"),
        *(f"-ip={_HOST}", f"-ip.bind={_HOST}", f"-master.port={master}"),
        *(f"-volume.port={volume}", "-filer", f"-filer.port={filer}", "-s3", f"-s3.port={port}"),
        *(f"-s3.config={config}", "-s3.iam=false", "-s3.autoCreateBucket=false"),
        *("-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"),
        *("-master.electionTimeout=1s", "-master.volumeSizeLimitMB=256", "-volume.max=100"),
        "-volume.preStopSeconds=0",
    ]


def store_answers(port: int) -> bool:
    """Whether the object store answers; it refuses a request without a signature."""
    connection = http.client.HTTPConnection(_HOST, port, timeout=_ASK_S)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == http.HTTPStatus.FORBIDDEN
    except OSError:
        return False
    finally:
        connection.close()


def caddy_file(port: int, registry_port: int) -> str:
    """The proxy's configuration: time and size limits, and everything goes to the registry."""
    return f"""{{
    admin off
    auto_https off
    persist_config off
    servers {{
        timeouts {{
            read_header 10s
            idle 60s
        }}
        max_header_size 16KB
    }}
}}
http://:{port} {{
    bind {_HOST}
    request_body {{
        max_size {_LARGEST_BODY_MB}MB
    }}
    reverse_proxy {_HOST}:{registry_port} {{
        flush_interval -1
        transport http {{
            response_header_timeout 310s
        }}
    }}
}}
"""


def database_answers(port: int) -> bool:
    """Whether the database server takes connections."""
    try:
        socket.create_connection((_HOST, port), timeout=_ASK_S).close()
    except OSError:
        return False
    return True


def proxy_command(config: Path) -> list[str | Path]:
    """The command of the proxy."""
    return [env_script("services", "caddy"), "run", "--config", config, "--adapter", "caddyfile"]


def check_programs() -> None:
    """Refuse to begin where a program is missing.

    Raises:
        HouseError: PostgreSQL is not installed.
    """
    for name in ("initdb", "postgres"):
        _postgresql_program(name)
    if os.getuid() == 0 and not _has_server_user():
        raise HouseError(
            f"PostgreSQL does not run as root, and there is no user {_SERVER_USER}.",
            "on Debian or Ubuntu: apt-get install postgresql makes it.",
        )


def _has_server_user() -> bool:
    try:
        pwd.getpwnam(_SERVER_USER)
    except KeyError:
        return False
    return True
