"""The small random checkpoint that the smoke tier serves."""

import shutil

from k3house.child import ToolFailedError, explain, run_tool
from k3house.place import MODEL, ROOT, env_python
from k3house.stamp import Stamp, read_stamp, source_digest, write_stamp

__all__ = ["checkpoint_is_current", "make_checkpoint"]

_SEED = "0"
_FOLDER = "k3decode"


def _stamp_folder_name() -> str:
    return f".{MODEL.name}.made"


def _wanted() -> Stamp:
    digest = source_digest(ROOT / _FOLDER, metadata_only=False)
    return Stamp(lock=f"seed {_SEED}", packages={_FOLDER: digest})


def checkpoint_is_current() -> bool:
    """Whether the checkpoint was made by the k3decode that is here now."""
    return read_stamp(MODEL.parent / _stamp_folder_name()) == _wanted() and MODEL.is_dir()


def make_checkpoint() -> None:
    """Write the checkpoint under a temporary name and put it in place when it is whole.

    The stamp lies beside the model's folder, not in it: every file in there is part of the model's
    identity.

    Raises:
        HouseError: It could not be written.
    """
    stamp_folder = MODEL.parent / _stamp_folder_name()
    partial = MODEL.parent / f".{MODEL.name}.partial"
    for folder in (stamp_folder, partial):
        shutil.rmtree(folder, ignore_errors=True)
    stamp_folder.mkdir(parents=True)
    try:
        run_tool(
            [env_python("engine"), "-m", "k3decode.tiny_checkpoint", partial, "--seed", _SEED],
            log="checkpoint",
        )
        shutil.rmtree(MODEL, ignore_errors=True)
        partial.rename(MODEL)
        write_stamp(stamp_folder, _wanted())
    except ToolFailedError as error:
        raise explain(error.output, "making the checkpoint") from None
    except OSError as error:
        raise explain(str(error), "making the checkpoint") from None
