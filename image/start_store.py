#!/usr/bin/python3 -I
"""Starts the object store of compose.yaml; keys come from the environment."""

import json
import os
import sys
from pathlib import Path

DATA = Path("/results/store")
PROGRAM = "/opt/k3eval/services/bin/weed"
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
EXIT_ENVIRONMENT = 5


def main() -> None:
    """Write the keys where only this process reads them, and become the store."""
    missing = [name for name in KEYS if not os.environ.get(name)]
    if missing:
        sys.stderr.write(f"start-store: {' and '.join(missing)} must be set.\n")
        sys.exit(EXIT_ENVIRONMENT)
    DATA.mkdir(parents=True, exist_ok=True)
    config = Path("/tmp/s3.json")  # noqa: S108
    config.touch(mode=0o600)
    config.write_text(json.dumps(identities(*(os.environ[name] for name in KEYS))))
    os.execv(PROGRAM, command(config))


def identities(access_key: str, secret_key: str) -> dict[str, object]:
    """Who may do what: one identity that may do everything."""
    credentials = [{"accessKey": access_key, "secretKey": secret_key}]
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    return {"identities": [{"name": "k3", "credentials": credentials, "actions": actions}]}


def command(config: Path) -> list[str]:
    """The store's command; only the S3 port is for others, the rest stays on loopback."""
    return [
        *(PROGRAM, "-logtostderr=true", "server", f"-dir={DATA}", "-ip=127.0.0.1"),
        *("-ip.bind=127.0.0.1", "-filer", "-s3", "-s3.port=8333", "-s3.ip.bind=0.0.0.0"),
        *(f"-s3.config={config}", "-s3.iam=false", "-s3.autoCreateBucket=false"),
        *("-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"),
        *("-master.electionTimeout=1s", "-master.volumeSizeLimitMB=256", "-volume.max=100"),
        "-volume.preStopSeconds=0",
    ]


if __name__ == "__main__":
    main()
