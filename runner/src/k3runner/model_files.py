"""Identity of a model folder: every file with size and digest."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from k3bundle.subject import ModelFile, ModelIdentity
from k3runner.subjects.definition import SubjectModel

__all__ = ["external_model", "read_model_identity"]

_CHUNK_BYTES = 1 << 22
_HASHERS = 8


def read_model_identity(model: SubjectModel, folder: Path) -> ModelIdentity:
    """Reads all files of a model folder, sorted by path; hidden files and folders are left out."""
    paths = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    # Hashing releases the interpreter, and the shards of a large model are hundreds.
    with ThreadPoolExecutor(max_workers=_HASHERS) as pool:
        digests = list(pool.map(_digest, paths))
    return ModelIdentity(
        name=model.name,
        revision=model.revision,
        random_weights=model.random_weights,
        files=tuple(
            ModelFile(
                path=path.relative_to(folder).as_posix(),
                size_bytes=path.stat().st_size,
                sha256=digest,
            )
            for path, digest in zip(paths, digests, strict=True)
        ),
    )


def external_model(name: str) -> ModelIdentity:
    """Identity of a model that an existing server serves: only its name is known."""
    return ModelIdentity(name=name[:160], revision="unknown", random_weights=False, files=())


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
