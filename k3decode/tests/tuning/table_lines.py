"""Lines of a table, right but for what a test changes."""

import json
from pathlib import Path
from typing import Any

GPU = "NVIDIA Test 9"

LINE: dict[str, Any] = {
    "schema": "k3decode.tuning/1",
    "gpu": GPU,
    "op": "mla_combine",
    "shape": "parts_to_values_12_heads",
    "ranks": [8],
    "rows": 17,
    "choice": "few_rows",
    "rule": "many_rows",
    "latency_us": {"tp8_1k_m17": 8.0},
    "rule_us": {"tp8_1k_m17": 10.5},
    "measurements": ["0123456789ab"],
}


def write_table(folder: Path, *changes: dict[str, Any], name: str = "nvidia_test_9") -> Path:
    """A table with a line for each set of changes."""
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps({**LINE, **change}) + "\n" for change in changes))
    return path
