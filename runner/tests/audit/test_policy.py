"""Policy as data: whose a path is."""

from pathlib import Path

import pytest

from k3runner.audit.policy import IsolationPolicy, load_policy, parse_policy
from k3runner.errors import UsageError

SMALL = """
name = "small"
[[rules]]
class = "shared"
area = "all"
paths = ["*"]
[selection]
config_keys = ["k"]
environment_names = ["A_*"]
[state]
registrations = []
[returns]
deciders = []
telling_calls = []
"""


@pytest.mark.parametrize(
    ("path", "path_class", "area"),
    [
        (
            "vllm/models/kimi_k3/nvidia/specialized_decode/runtime/decode.py",
            "model_only",
            "kimi-k3",
        ),
        ("vllm/models/deepseek_v4/nvidia/model.py", "model_only", "deepseek-v4"),
        ("vllm/models/common/kda.py", "shared", "code of several models"),
        ("vllm/models/qwen4/model.py", "shared", "other models"),
        ("vllm/v1/sample/sampler.py", "shared", "sampling"),
        ("vllm/v1/worker/gpu/sample/gumbel.py", "shared", "sampling"),
        ("vllm/v1/core/sched/scheduler.py", "shared", "scheduler"),
        ("vllm/v1/core/kv_cache_manager.py", "shared", "KV-cache manager"),
        ("vllm/v1/worker/gpu/input_batch.py", "shared", "input preparation"),
        ("vllm/v1/worker/gpu/model_runner.py", "shared", "worker and model runner"),
        ("vllm/v1/attention/backends/mla/common.py", "shared", "attention backends"),
        ("vllm/distributed/parallel_state.py", "shared", "distributed"),
        ("vllm/envs.py", "shared", "configuration"),
        ("CMakeLists.txt", "shared", "build files"),
        ("tests/models/test_kimi_k3.py", "test", "tests"),
        ("vllm/models/kimi_k3/README.md", "documentation", "documentation"),
        ("vllm/somewhere/else.py", "shared", "the rest of the engine"),
        ("surprise.bin", "unnamed", ""),
    ],
)
def test_vllm_paths_have_their_class(
    policy: IsolationPolicy, path: str, path_class: str, area: str
) -> None:
    found = policy.classify(path)
    assert (found.path_class, found.area) == (path_class, area)


def test_a_rename_takes_the_stricter_class(policy: IsolationPolicy) -> None:
    own, shared = "vllm/models/kimi_k3/sampler.py", "vllm/v1/sample/sampler.py"
    assert policy.classify_rename(own, shared).path_class == "shared"
    assert policy.classify_rename(shared, own).path_class == "shared"
    assert policy.classify_rename(own, None).path_class == "model_only"


def test_a_module_is_classified_by_its_file(policy: IsolationPolicy) -> None:
    found = policy.classify_module("vllm.models.kimi_k3.nvidia.model")
    assert found is not None
    assert found.area == "kimi-k3"
    assert policy.classify_module("torch.nn") is None


def test_a_policy_of_ones_own_is_read_with_its_digest(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    policy = load_policy(file)
    assert policy.classify("anything").area == "all"
    assert len(policy.sha256) == 64
    assert policy.sha256 != load_policy(None).sha256


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (('class = "shared"', 'class = "mine"'), "a class is one of"),
        (('name = "small"', ""), "`name` is missing"),
        (("[returns]", "[other]"), "`returns` is missing"),
        (("config_keys", "keys"), "`config_keys` is missing"),
        (('paths = ["*"]', 'paths = "*"'), "must be list"),
        (('name = "small"', "name = "), "is not TOML"),
    ],
)
def test_a_wrong_policy_is_a_sentence(change: tuple[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse_policy(SMALL.replace(*change).encode(), where="policy small")


def test_a_policy_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_policy(tmp_path / "none.toml")
