"""Writes the table of error rates: how often a verdict on speed is wrong, by simulation.

Usage: python -m k3bundle_testing.error_rates FILE [--check]
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from k3bundle_testing.simulated_plans import Row, false_alarms, noisy_null_share, rates

__all__ = ["DRIFTS", "PLANS", "ROWS", "main", "table"]

PLANS: Final = 2000
_PAIRS: Final = tuple(range(2, 9))
_SPREADS: Final = (0.005, 0.01, 0.02)
DRIFTS: Final = (0.001, 0.0025, 0.005)

ROWS: Final = (
    *(Row(pairs, spread) for spread in _SPREADS for pairs in _PAIRS),
    *(
        Row(pairs, spread, drift, drift_adjusted=True)
        for drift in DRIFTS
        for spread in _SPREADS
        for pairs in _PAIRS
    ),
)
"""Every spread and number of pairs, without drift, and with drifts where the plan takes them out.
Two pairs cannot tell a drift from a ratio; they are judged as without one."""

_UNADJUSTED: Final = tuple(
    Row(pairs, spread, 0.005)
    for spread in _SPREADS
    for pairs in _PAIRS
    if pairs > 2  # noqa: PLR2004
)
_HEAD: Final = """# Error rates of a verdict on speed

Written by `make error-rates`; simulated, nothing in here was measured. Each row is {plans} plans
that are judged by the functions of `k3bundle.derive` that judge one; random numbers are the same
everywhere. The bounds are one-sided at {confidence}.

- False PASS, false FAIL: the arms are equal, and the lower bound is above 1, or the upper one is
  below.
- Printed gain: what plans of the row print as the smallest gain that they would find; the root
  mean square, and in brackets where the prints of eight in ten plans lie. With two or three pairs,
  one plan's print is a poor guide.
- Power: how often plans find a true gain of that size.
"""


def table(plans: int = PLANS) -> str:
    """The whole document."""
    lines = [_HEAD.format(plans=plans, confidence="95 %")]
    lines += ["## Plans that are judged as they are planned", ""]
    lines += _rate_lines(ROWS, plans)
    lines += [
        "",
        "## A drift that is not taken out",
        "",
        "A-B-B-A blocks keep a drift out of the ratio and leave it in the spread: a plan that does",
        "not take it out passes less often than it might, and prints a larger gain than it needs.",
        "Half a block at the end lets a part of the drift into the ratio; plans that claim speed",
        "have whole blocks.",
        "",
    ]
    lines += _rate_lines(_UNADJUSTED, plans)
    lines += ["", "## Many cells", "", *_many_lines(plans)]
    return "\n".join(lines) + "\n"


def _rate_lines(rows: tuple[Row, ...], plans: int) -> Iterator[str]:
    yield "| pairs | spread | drift a boot | false PASS | false FAIL | printed gain | power |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        found = rates(row, plans)
        yield (
            f"| {row.pairs} | {_percent(row.spread)} | {_percent(row.drift)} | "
            f"{_percent(found.false_pass)} | {_percent(found.false_fail)} | "
            f"{_percent(found.printed_effect)} ({_percent(found.printed_effect_p10)} to "
            f"{_percent(found.printed_effect_p90)}) | {_percent(found.power)} |"
        )


def _many_lines(plans: int) -> Iterator[str]:
    yield "Runs without an effect, with 28 cells that are judged with noise of their own."
    yield ""
    yield "| pairs | some cell called slower by its own p-value | after Holm | null pair noisy |"
    yield "|---|---|---|---|"
    for pairs in (4, 6, 8):
        row = Row(pairs, 0.01)
        plain, adjusted = false_alarms(row, plans, 28)
        noisy = noisy_null_share(row, plans, 28)
        yield f"| {pairs} | {_percent(plain)} | {_percent(adjusted)} | {_percent(noisy)} |"


def _percent(share: float) -> str:
    return f"{share * 100:.3g} %"


def main(arguments: list[str]) -> int:
    """Write the table, or with `--check` compare it with the committed one.

    Returns:
        0 when written or equal, 1 when `--check` found a difference, 2 on wrong usage.
    """
    check = "--check" in arguments
    files = [argument for argument in arguments if argument != "--check"]
    if len(files) != 1:
        sys.stderr.write("Usage: python -m k3bundle_testing.error_rates FILE [--check]\n")
        return 2
    file, wanted = Path(files[0]), table()
    if not check:
        file.write_text(wanted, encoding="utf-8")
        return 0
    if file.is_file() and file.read_text(encoding="utf-8") == wanted:
        return 0
    sys.stderr.write(f"Expected {file} as simulated, found it different. Run: make error-rates\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
