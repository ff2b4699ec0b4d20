"""Settings of one registry process: resolved once, passed everywhere, never changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from k3server.allowance import Allowance

__all__ = ["Settings"]

_MIB = 1024 * 1024
_READS = Allowance(per_s=100.0, burst=2000.0)
_WRITES = Allowance(per_s=10.0, burst=600.0)
_SENT_BYTES = Allowance(per_s=16.0 * _MIB, burst=16384.0 * _MIB)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Limits and addresses. The defaults are for a registry on one small machine."""

    public_url: str
    """Address under which contributors reach the registry, without a final slash."""
    max_archive_bytes: int = 2048 * _MIB
    """Largest archive that is received."""
    max_content_bytes: int = 512 * _MIB
    """Most bytes of the files inside an archive, together; the verifier holds them in memory."""
    max_put_bytes: int = 64 * _MIB
    """Largest archive that is received in one request; a larger one comes in parts."""
    part_size_bytes: int = 16 * _MIB
    """Size of the parts of an upload."""
    upload_lifetime_s: int = 24 * 3600
    """How long an upload in parts stays open."""
    garbage_age_s: int = 24 * 3600
    """How long an archive stays that no submission names."""
    garbage_every_s: float = 3600.0
    """Time between two garbage collections of a running registry."""
    max_json_bytes: int = 64 * 1024
    """Largest JSON request body."""
    max_header_bytes: int = 16 * 1024
    """Largest sum of header names and values of a request."""
    header_timeout_s: float = 5.0
    """Longest time from the first byte of a request to the end of its headers."""
    body_idle_timeout_s: float = 10.0
    """Longest pause between two pieces of a request body."""
    minimum_upload_bytes_per_s: int = 4096
    """Least average rate of a request body once `upload_grace_s` has passed."""
    upload_grace_s: float = 30.0
    """Time during which the rate of a request body is not judged."""
    verify_wall_s: float = 120.0
    """Longest time that the verifier may take for one bundle."""
    verify_cpu_s: int = 90
    """Longest CPU time that the verifier may take for one bundle."""
    verify_memory_bytes: int = 4096 * _MIB
    """Largest address space of the verifier."""
    verify_processes: int = 2
    """Bundles verified at the same time."""
    verify_queue: int = 32
    """Submissions that may wait for a verifier; more are asked to come back."""
    nonce_lifetime_s: int = 7 * 24 * 3600
    """How long an issued nonce can be used."""
    reads: Allowance = _READS
    """Requests that read, per client."""
    writes: Allowance = _WRITES
    """Requests that send something, per client."""
    sent_bytes: Allowance = _SENT_BYTES
    """Bytes that are sent, per client."""
    behind_proxy: bool = False
    """Whether the last address of `X-Forwarded-For` is the client's."""
    webhook_secret: bytes = field(default=b"", repr=False)
    """Secret that deliveries of the forge are signed with; empty: none are taken."""
    max_webhook_bytes: int = 5 * _MIB
    """Largest delivery that is read."""
    tell_every_s: float = 2.0
    """Time between two looks into the outbox."""
    poll_every_s: float = 900.0
    """Time between two looks at pull requests of which nothing was heard."""
    known_signers: frozenset[str] = frozenset()
    """Fingerprints (`SHA256:...`) of keys whose owner the operator knows."""
    published_images: Mapping[str, str] = field(default_factory=dict)
    """Manifest digest -> digest of the file tree, of images that the operator knows."""
    claim_lifetime_s: int = 7 * 24 * 3600
    """How long a claim on the board holds."""
    board_size: int = 500
    """Things on the board that are shown."""
    page_size: int = 50
    """Submissions on one list page."""
