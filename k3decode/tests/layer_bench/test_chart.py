import json
import re
from pathlib import Path

from k3decode.layer_bench.chart import main, points, table

RECORDS = [
    {
        "rows": rows,
        "floor_us": 60.0 + rows,
        "median_us": 90.0 + rows,
        "low_us": 89.5 + rows,
        "high_us": 90.5 + rows,
        "distinct_experts": 16.0 * rows,
    }
    for rows in (4, 1, 3)
]


def test_a_row_says_how_far_from_the_floor_and_from_stock() -> None:
    found = points(RECORDS, {"1": 101.0})
    lines = table(found, "engine").splitlines()
    assert lines[2] == "| 1 | 16 | 61.0 | 91.0 | 90.5 to 91.5 | 1.49 | 101 | 1.11 |"
    assert lines[3] == "| 3 | 48 | 63.0 | 93.0 | 92.5 to 93.5 | 1.48 |  |  |"


def test_the_picture_has_a_line_of_each_kind(tmp_path: Path) -> None:
    results, stock = tmp_path / "r.jsonl", tmp_path / "s.json"
    results.write_text("\n".join(json.dumps(record) for record in RECORDS))
    stock.write_text(json.dumps({"label": "engine", "us": {"1": 101.0, "4": 176.0}}))
    assert main([str(results), str(tmp_path / "layer"), "--stock", str(stock)]) == 0
    lines = re.findall(r'<polyline points="([^"]*)"', (tmp_path / "layer.svg").read_text())
    assert [len(line.split()) for line in lines] == [3, 3, 2]
    heights = [float(one.split(",")[1]) for one in lines[1].split()]
    assert heights == sorted(heights, reverse=True)
    assert (tmp_path / "layer.md").read_text().count("\n") == 5


def test_lines_of_one_run_bring_the_other_engine_and_the_ratios_interval(tmp_path: Path) -> None:
    together = [
        {**one, "stock_us": 120.0, "ratio": 1.29, "ratio_low": 1.284, "ratio_high": 1.306}
        for one in RECORDS
    ]
    results = tmp_path / "r.jsonl"
    lines = [{"schema": "engines"}, *together, {"rows": 1, "us": 10.0}]
    results.write_text("\n".join(json.dumps(line) for line in lines))
    assert main([str(results), str(tmp_path / "layer")]) == 0
    rows = (tmp_path / "layer.md").read_text().splitlines()
    assert "| vLLM 0.33.0, us | Ratio |" in rows[0]
    assert len(rows) == 2 + len(RECORDS)
    assert rows[2].endswith("| 120 | 1.29 (1.28 to 1.31) |")
