"""What Blackwell's attention kernel compiles to: descriptors, lanes, copies, waits."""

import ast
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

import k3decode
from k3decode.audit.__main__ import audit_files, own_declarations
from k3decode.audit.report import KernelReport
from k3decode.dims import K3Dims
from k3decode.host.sass import disassemble, instruction_mix
from k3decode.ops.mla_decode.launch import blackwell_config, config_for

from .blackwell_memory import Descriptor, Storage, lane_of

pytestmark = pytest.mark.compiled

VARIANTS = ("bf16:32:sm_100a", "e4m3:32:sm_103a")
SWIZZLES = {16: 0, 32: 6, 64: 4, 128: 2}
TESTS = Path(__file__).parents[2]


def compiled(folder: Path, *variants: str, package: Path | None = None) -> None:
    """Compile in a process of its own, of this package or of a copy in `package`."""
    path = os.pathsep.join(filter(None, [str(package or ""), os.environ.get("PYTHONPATH")]))
    subprocess.run(
        [sys.executable, "-m", "tests.ops.compile_blackwell", str(folder), *variants],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": path},
        check=True,
        capture_output=True,
    )


@dataclass(frozen=True)
class Made:
    """One variant and what became of it."""

    folder: Path
    variant: str

    @cached_property
    def storage(self) -> Storage:
        cache_format, columns, _ = self.variant.split(":")
        config = config_for(K3Dims(), cache_format)
        return Storage(blackwell_config(config, int(columns)))

    def file(self, kind: str) -> Path:
        return self.folder / f"{self.variant.replace(':', '.')}.{kind}"

    def views(self) -> list[list[list[int]]]:
        """Distances in bytes that the operands' fragments have, for each slot each step."""
        text = self.file("mlir").read_text()
        found = re.findall(r'make_fragment [AB] .*smem_desc, "([^"]*)">', text)
        return [_distances(view) for view in found]


def _distances(view: str) -> list[list[int]]:
    shape, stride = (ast.literal_eval(part) for part in view.split(":"))
    steps, slots = (_offsets(shape[mode], stride[mode]) for mode in (2, 3))
    return [[16 * (slot + step) for step in steps] for slot in slots]


def _offsets(shape: int | tuple[int, ...], stride: int | tuple[int, ...]) -> list[int]:
    if isinstance(shape, int) and isinstance(stride, int):
        return [i * stride for i in range(shape)]
    assert isinstance(shape, tuple)
    assert isinstance(stride, tuple)
    found = [0]
    for extent, distance in zip(shape, stride, strict=True):
        found = [offset + i * distance for i in range(extent) for offset in found]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("blackwell")
    compiled(path, *VARIANTS)
    return path


@pytest.fixture(params=VARIANTS, scope="module")
def made(request: pytest.FixtureRequest, folder: Path) -> Made:
    return Made(folder, request.param)


def _number(descriptor: Descriptor) -> int:
    """The descriptor of the instruction, without its address."""
    swizzle = SWIZZLES[descriptor.row_bytes]
    return descriptor.leading << 12 | descriptor.stride << 28 | 1 << 46 | swizzle << 61


def test_descriptors_are_those_that_the_emulation_reads_by(made: Made) -> None:
    at = made.storage
    pairs = [*at.key_products(0, 0), *at.value_products(0, 0, 0)]
    expected = {_number(one) for pair in pairs for one in pair}
    constants = {
        int(found) % 2**64
        for found in re.findall(
            r"(?:or|add)\.[bs]64 .*, (-?\d{14,});", made.file("ptx").read_text()
        )
    }
    assert {number & ~0xFFFF for number in constants if number >> 46 & 7 == 1} == expected


def test_products_step_through_memory_as_the_emulation_does(made: Made) -> None:
    at = made.storage
    c = at.config
    keys, shared, query, query_shared, values, *both_shares = made.views()
    steps = len(keys[0])
    for slot in range(c.units):
        pairs = at.key_products(0, 0)[slot * steps : (slot + 1) * steps]
        assert keys[slot] == [left.start for left, _ in pairs]
        assert query[slot] == [right.start - at.query for _, right in pairs]
    rest = at.key_products(0, 1)[c.units * steps :]
    assert shared[1] == [left.start - at.shared for left, _ in rest]
    assert query_shared[0] == [right.start - at.query_shared for _, right in rest]
    assert len(keys) == len(values) == c.latent_slots
    for slot in range(c.latent_slots):
        assert values[slot] == [left.start for left, _ in at.value_products(slot, 0, 0)]
    # The last of several terms has a format, and so a product, of its own.
    assert len(both_shares) == (2 if c.terms > 1 else 1)
    for shares in both_shares:
        for term in range(c.terms):
            pairs = at.value_products(0, 0, term)
            assert shares[term] == [right.start - at.shares for _, right in pairs]


def test_rows_of_a_product_are_in_the_lanes_that_the_emulation_reads(made: Made) -> None:
    text = made.file("mlir").read_text()
    found = set(re.findall(r'memref<f32, tmem, align<1>, "([^"]*)">', text))
    tokens = made.storage.config.tile_tokens
    layouts = {rows: _lanes(layout) for layout in found if (rows := len(_lanes(layout)))}
    assert set(layouts) == {tokens, 128}
    for rows, lanes in layouts.items():
        assert lanes == [lane_of(row, rows) for row in range(rows)]


def _lanes(layout: str) -> list[int]:
    shape, stride = (ast.literal_eval(part)[0][0] for part in layout.split(":"))
    return [offset >> 16 for offset in _offsets(shape, stride)]


def test_bulk_copies_go_where_the_emulation_writes(made: Made) -> None:
    c = made.storage.config
    copies = re.findall(
        r"cp\.async\.bulk\.tensor\.3d\S* \[%r\d+(?:\+(\d+))?\]", made.file("ptx").read_text()
    )
    count = c.boxes * c.spans
    assert len(copies) == c.units * count + c.boxes
    expected = [
        span * c.tile_tokens * 128 + box * c.box_bytes
        for box in range(c.boxes)
        for span in range(c.spans)
    ]
    for unit in range(c.units):
        assert [int(at or 0) for at in copies[unit * count : (unit + 1) * count]] == expected


def test_it_uses_what_blackwell_adds(made: Made) -> None:
    (code,) = disassemble(made.file("cubin").read_bytes()).values()
    mix = instruction_mix(code)
    assert mix["tensor core"] >= 60
    assert mix["bulk copy"] >= 36
    product = "UTCHMMA" if made.variant.startswith("bf16") else "UTCQMMA"
    for instruction in (product, "UTMALDG.3D", "LDTM", "STTM", "UTCBAR", "UTCATOMSWS"):
        assert instruction in code
    # Not a Hopper kernel, recompiled.
    assert "HMMA.16816" not in code
    assert "local" not in mix


def _audited(folder: Path, variant: str) -> KernelReport:
    (report,) = audit_files([Made(folder, variant).file("cubin")], list(own_declarations()))
    assert report.audit.facts.dependent_launch
    return report


def test_it_reads_nothing_before_its_wait(folder: Path) -> None:
    report = _audited(folder, VARIANTS[0])
    assert report.audit.findings == ()
    read = {name for load in report.audit.loads for name in load.parameters}
    assert {"latent_map", "shared_map", "query", "table", "lengths"} <= read


def test_a_wait_that_only_the_weighing_warps_have_is_noticed(tmp_path: Path) -> None:
    shutil.copytree(Path(k3decode.__file__).parent, tmp_path / "k3decode")
    kernel = tmp_path / "k3decode/ops/mla_decode_blackwell/kernel.py"
    wait = "        cute.arch.griddepcontrol_wait()\n"
    source = kernel.read_text()
    assert source.count(wait) == 1
    broken = source.replace(wait, f"        if warp >= _WEIGH_WARP:\n    {wait}")
    kernel.write_text(broken)
    compiled(tmp_path, VARIANTS[0], package=tmp_path)
    findings = _audited(tmp_path, VARIANTS[0]).audit.findings
    early = {name for f in findings if f.code == "before-wait" for name in f.parameters}
    assert {"latent_map", "shared_map", "query", "table", "lengths"} <= early
