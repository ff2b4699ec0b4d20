"""Text as nvdisasm prints it, for a few instructions that a test writes down."""

from collections.abc import Sequence

from k3decode.audit.program import Kernel
from k3decode.audit.sass import read_sass

__all__ = ["sass_kernel", "sass_text"]

_BASE = 0x210


def sass_text(lines: Sequence[str], sizes: Sequence[int] = (8, 8, 8, 8)) -> str:
    """A kernel `k` of sm_90a; a line that ends in a colon is a label.

    Args:
        lines: instructions without address and semicolon.
        sizes: bytes of each parameter, multiples of 8 or 4 at the end.
    """
    attributes = []
    offset = 0
    for ordinal, size in enumerate(sizes):
        flags = (size << 18 | 0xF000).to_bytes(4, "little")
        attributes.append(
            "//----- nvinfo : EIATTR_KPARAM_INFO\n"
            "        /*0010*/ .byte 0x04, 0x17\n        /*0012*/ .short (.L_1 - .L_0)\n"
            f"        /*0014*/ .word 0x00000000\n        /*0018*/ .short {ordinal:#06x}\n"
            f"        /*001a*/ .short {offset:#06x}\n"
            f"        /*001c*/ .byte {', '.join(f'{byte:#04x}' for byte in flags)}\n"
        )
        offset += size
    attributes.append(
        "//----- nvinfo : EIATTR_PARAM_CBANK\n        /*0030*/ .byte 0x04, 0x0a\n"
        "        /*0034*/ .word index@(.nv.constant0.k)\n"
        f"        /*0038*/ .short {_BASE:#06x}\n        /*003a*/ .short {offset:#06x}\n"
    )
    code = []
    at = 0
    for line in lines:
        if line.endswith(":"):
            code.append(line)
        else:
            code.append(f"        /*{at:04x}*/                   {line} ;")
            at += 16
    return "\n".join(
        [
            "\t.target\tsm_90a\n",
            '\t.section\t.nv.info.k,"",@"SHT_CUDA_INFO"',
            *attributes,
            '\t.section\t.text.k,"ax",@progbits',
            ".text.k:",
            *code,
            "",
        ]
    )


def sass_kernel(lines: Sequence[str], sizes: Sequence[int] = (8, 8, 8, 8)) -> Kernel:
    """The same, read."""
    (kernel,) = read_sass(sass_text(lines, sizes))
    return kernel
