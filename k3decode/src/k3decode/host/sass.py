"""Machine code as text: which instructions a kernel consists of."""

import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

__all__ = ["disassemble", "instruction_mix", "local_accesses"]

_FUNCTION = re.compile(r"^\.text\.(\S+):", re.MULTILINE)
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)")
_LOCAL = frozenset({"LDL", "STL"})
# First match counts. Tensor memory and the tensor cores that use it exist on Blackwell only.
_FAMILIES = (
    ("tensor core", re.compile(r"[HIDQO]MMA|[HIQ]GMMA|UTC\w*MMA")),
    ("tensor memory", re.compile(r"LDTM|STTM|UTC\w+")),
    ("bulk copy", re.compile(r"UBLK\w+|UTMA\w+")),
    ("async copy", re.compile(r"LDGSTS|LDGDEPBAR")),
    ("global", re.compile(r"LDG|STG|LD|ST|ATOMG|REDG?|ATOM|CCTL")),
    ("shared", re.compile(r"LDS|STS|LDSM|STSM|ATOMS|STAS")),
    ("local", re.compile(r"LDL|STL")),
    ("fp32", re.compile(r"FFMA2?|FADD2?|FMUL2?|FMNMX3?|FSEL|FSETP|FSET|FCHK|FSWZADD")),
    ("fp16/bf16", re.compile(r"H(FMA2|ADD2|MUL2|MNMX2|SETP2|SET2)")),
    ("special function", re.compile(r"MUFU")),
    ("conversion", re.compile(r"F2FP?|I2FP?|F2I|I2I|FRND|PRMT|UPRMT")),
    ("warp exchange", re.compile(r"SHFL|REDUX|CREDUX|VOTEU?|MATCH|R2UR")),
    ("barrier", re.compile(r"U?BAR|SYNCS|UCGABAR\w*|MEMBAR|ERRBAR|DEPBAR|WARPSYNC|ACQBULK|FENCE")),
)


def disassemble(image: bytes) -> Mapping[str, str]:
    """SASS of each kernel of an image, by the nvdisasm on the path or of nvidia-cuda-nvdisasm.

    Raises:
        FileNotFoundError: there is no nvdisasm.
    """
    beside = Path(sysconfig.get_paths()["purelib"], "nvidia", "cu13", "bin", "nvdisasm")
    program = str(beside) if beside.exists() else shutil.which("nvdisasm")
    if program is None:
        raise FileNotFoundError("expected nvdisasm, found none: install nvidia-cuda-nvdisasm")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        done = subprocess.run([program, "-c", file.name], capture_output=True, check=True)
    parts = _FUNCTION.split(done.stdout.decode())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def instruction_mix(sass: str) -> dict[str, int]:
    """Count instructions by family, `other` for those of none; families without any are absent."""
    counts = Counter(_family(found[1]) for found in _INSTRUCTION.finditer(sass))
    order = [*(name for name, _ in _FAMILIES), "other"]
    return {name: counts[name] for name in order if counts[name]}


def local_accesses(sass: str) -> int:
    """Loads and stores of local memory; in a kernel without local arrays they are spills."""
    return sum(found[1] in _LOCAL for found in _INSTRUCTION.finditer(sass))


def _family(mnemonic: str) -> str:
    for name, pattern in _FAMILIES:
        if pattern.fullmatch(mnemonic):
            return name
    return "other"
