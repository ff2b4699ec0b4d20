from pathlib import Path

from k3decode.vllm_plugin.gpu.conditions_page import conditions_page, main
from k3decode.vllm_plugin.gpu.deployment import RULES
from k3decode.vllm_plugin.gpu.step_path import FALLBACKS

_PAGE = Path(__file__).parents[3] / "docs" / "served.md"


def test_the_page_is_what_the_tables_say(tmp_path: Path) -> None:
    assert main([str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text() == conditions_page() == _PAGE.read_text()
    assert all(f"- {reason}\n" in conditions_page() for _, reason in (*RULES, *FALLBACKS))
