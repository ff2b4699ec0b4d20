"""`python -m tests.ops.compile_blackwell FOLDER FORMAT:COLUMNS:ARCHITECTURE ...`: compile.

Writes what the compiler made of Blackwell's attention kernel: .cubin, .ptx and .mlir. A process of
its own, since the compiler reads what to keep when it is imported.
"""

import os
import sys
from pathlib import Path

from k3decode.dims import K3Dims
from k3decode.ops.mla_decode.launch import blackwell_config, compile_variant, config_for


def main(folder: str, *variants: str) -> None:
    os.environ.update({"CUTE_DSL_KEEP": "cubin,ptx,ir", "CUTE_DSL_DUMP_DIR": folder})
    for variant in variants:
        cache_format, columns, architecture = variant.split(":")
        config = blackwell_config(config_for(K3Dims(), cache_format), int(columns))
        made = compile_variant(config, architecture).artifacts
        path = Path(folder, variant.replace(":", "."))
        path.with_name(f"{path.name}.cubin").write_bytes(bytes(made.CUBIN))
        path.with_name(f"{path.name}.ptx").write_text(str(made.PTX))
        path.with_name(f"{path.name}.mlir").write_text(str(made.MLIR))


if __name__ == "__main__":
    main(*sys.argv[1:])
