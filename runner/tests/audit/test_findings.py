"""What added Python code selects, writes, and gives back."""

from collections.abc import Callable

import pytest

from k3runner.audit.policy import IsolationPolicy
from k3runner.audit.python_module import ChangedModule
from k3runner.audit.selection import selection_points, text_selection_points
from k3runner.audit.standard_returns import standard_returns
from k3runner.audit.state_writes import state_writes

MakeModule = Callable[..., ChangedModule]

SELECTING = """
import os
from vllm import envs

def build(config, decode_backend="auto"):
    if config.additional_config.get("decode_backend") == "latency_specialized":
        return Fast()
    flag = os.environ.get("MY_SWITCH", "0")
    if envs.VLLM_USE_FAST:
        return Fast()
    return Stock(decode_backend=decode_backend)
"""


def test_selection_by_key_and_variable_is_found_with_its_branch(
    make_module: MakeModule, policy: IsolationPolicy
) -> None:
    found = [
        (point.line, point.kind, point.name, point.branches)
        for point in selection_points(make_module(SELECTING), policy)
    ]
    assert found == [
        (5, "config_key", "decode_backend", False),
        (6, "config_key", "additional_config", True),
        (6, "config_key", "decode_backend", True),
        (8, "environment", "MY_SWITCH", False),
        (9, "environment", "VLLM_USE_FAST", True),
        (11, "config_key", "decode_backend", False),
    ]


def test_selection_in_lines_that_are_not_new_is_not_listed(
    make_module: MakeModule, policy: IsolationPolicy
) -> None:
    module = make_module(SELECTING, added=frozenset({9}))
    assert [point.line for point in selection_points(module, policy)] == [9]


@pytest.mark.parametrize(
    ("path", "statement", "module"),
    [
        (
            "vllm/v1/worker/gpu/model_runner.py",
            "from vllm.models.kimi_k3.nvidia import model",
            "vllm.models.kimi_k3.nvidia.model",
        ),
        (
            "vllm/v1/worker/x.py",
            "import vllm.models.kimi_k3.nvidia.model as m",
            "vllm.models.kimi_k3.nvidia.model",
        ),
        (
            "vllm/models/common/kda.py",
            "from ..kimi_k3.nvidia.kda import run",
            "vllm.models.kimi_k3.nvidia.kda.run",
        ),
    ],
)
def test_shared_code_that_imports_one_models_code_is_a_selection(
    make_module: MakeModule, policy: IsolationPolicy, path: str, statement: str, module: str
) -> None:
    shared = make_module(statement, path=path, path_class="shared")
    (point,) = selection_points(shared, policy)
    assert (point.kind, point.name) == ("import", module)
    own = make_module(statement, path="vllm/models/kimi_k3/x.py")
    assert selection_points(own, policy) == ()


def test_text_files_are_searched_for_whole_words(policy: IsolationPolicy) -> None:
    lines = [
        (3, 'args: --additional-config \'{"decode_backend": "x"}\''),
        (4, "decode_backends: 1"),
    ]
    found = text_selection_points("recipe.yaml", "unnamed", lines, policy)
    assert [(point.line, point.name, point.branches) for point in found] == [
        (3, "decode_backend", False)
    ]


STATE = [
    ("import torch\ntorch.matmul = mine", "monkey_patch", "torch.matmul"),
    ("from vllm import scheduler\nscheduler.LIMIT = 1", "monkey_patch", "scheduler.LIMIT"),
    (
        "from vllm.v1.sample import Sampler\ndef f():\n    setattr(Sampler, 'forward', g)",
        "monkey_patch",
        "setattr(Sampler, 'forward', g)",
    ),
    ("import os\nos.environ['X'] = '1'", "environment", "os.environ['X']"),
    ("import os\nos.environ.update(a='1')", "environment", "os.environ.update(a='1')"),
    ("_CACHE = {}\ndef f(k):\n    _CACHE[k] = 1", "module_global", "_CACHE[k]"),
    ("_CACHE = []\ndef f(k):\n    _CACHE.append(k)", "module_global", "_CACHE.append"),
    ("N = 0\ndef f():\n    global N\n    N += 1", "module_global", "N"),
    ("class A:\n    @classmethod\n    def f(cls):\n        cls.x = 1", "module_global", "cls.x"),
    ("def f(layer):\n    layer.weight = 1", "foreign_attribute", "layer.weight"),
    ("class A:\n    def f(self):\n        self.config.x = 1", "foreign_attribute", "self.config.x"),
    ("def f(cache, slot, x):\n    cache[slot] = x", "in_place", "cache[slot]"),
    ("def f(context, x):\n    context.out.copy_(x)", "in_place", "context.out.copy_"),
    (
        "class A:\n    def f(self):\n        self.register_buffer('a', b)",
        "buffer",
        "self.register_buffer('a', b)",
    ),
    (
        "import torch\ntorch.library.define('a', 'b')",
        "registration",
        "torch.library.define",
    ),
    ("@CustomOp.register('x')\nclass A:\n    pass", "registration", "CustomOp.register"),
]


@pytest.mark.parametrize(("source", "kind", "target"), STATE)
def test_state_beyond_its_own_is_found(
    make_module: MakeModule, policy: IsolationPolicy, source: str, kind: str, target: str
) -> None:
    found = state_writes(make_module(source), policy).writes
    assert [(write.kind, write.target) for write in found] == [(kind, target)]


OWN = [
    "class A:\n    def f(self):\n        self.x = 1\n        self.y[0] = 2",
    "class A:\n    def f(self):\n        self.z.copy_(1)",
    "def f():\n    x = {}\n    x['a'] = 1\n    x.update(b=2)",
    "X = 1\nY: int = 2",
    "class A:\n    limit = 3",
    "from vllm.v1.sample import Sampler\ndef f():\n    s = Sampler()\n    return s.forward()",
    "class A:\n    def f(self):\n        def g(x):\n            self.x = x\n        return g",
]


@pytest.mark.parametrize("source", OWN)
def test_own_state_and_locals_are_not_listed(
    make_module: MakeModule, policy: IsolationPolicy, source: str
) -> None:
    assert state_writes(make_module(source), policy).writes == ()


def test_device_code_is_counted_and_not_looked_into(
    make_module: MakeModule, policy: IsolationPolicy
) -> None:
    source = (
        "@cute.kernel\ndef k(gA, gB):\n    gA[0] = gB[0]\n\n"
        "@triton.jit(do_not_specialize=['n'])\ndef t(p):\n    p[0] = 1\n"
    )
    found = state_writes(make_module(source), policy)
    assert (found.writes, found.device_functions) == ((), 2)


RETURNS = """
class Decode(Base):
    def plan(self, tokens):
        if tokens not in self.prepared:
            return None
        if self.mixed:
            logger.debug("mixed step")
            return None
        return Plan(tokens)

    def forward(self, x):
        if self.step is None:
            return super().forward(x)
        return run(x)

    def validate(self, config):
        if config.tp not in (8, 16):
            raise ValueError("tp")

    def warm(self):
        try:
            compile_all()
        except RuntimeError:
            self.ready = False

    def other(self):
        return None
"""


def test_ways_back_are_found_with_condition_and_silence(
    make_module: MakeModule, policy: IsolationPolicy
) -> None:
    found = [
        (one.kind, one.condition, one.told)
        for one in standard_returns(make_module(RETURNS), policy)
    ]
    assert found == [
        ("declines", "tokens not in self.prepared", False),
        ("declines", "self.mixed", True),
        ("calls_parent", "self.step is None", False),
        ("refuses", "config.tp not in (8, 16)", True),
        ("swallows_error", "except RuntimeError", False),
    ]


def test_an_else_branch_has_the_opposite_condition(
    make_module: MakeModule, policy: IsolationPolicy
) -> None:
    source = (
        "def can_serve(n):\n    if n < 9:\n        return True\n    else:\n        return False\n"
    )
    (one,) = standard_returns(make_module(source), policy)
    assert (one.condition, one.symbol, one.line) == ("not (n < 9)", "can_serve", 5)


def test_an_error_that_is_raised_again_is_not_swallowed(
    make_module: MakeModule, policy: IsolationPolicy
) -> None:
    source = (
        "def warm():\n    try:\n        f()\n"
        "    except ValueError as e:\n        raise KeyError from e\n"
    )
    assert standard_returns(make_module(source), policy) == ()


def test_writing_a_variable_is_state_and_no_selection(
    make_module: MakeModule, policy: IsolationPolicy
) -> None:
    module = make_module("import os\nos.environ['SWITCH'] = '1'\nx = os.environ['SWITCH']\n")
    assert [point.line for point in selection_points(module, policy)] == [3]
    assert [write.line for write in state_writes(module, policy).writes] == [2]
