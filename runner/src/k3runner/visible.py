"""Shows text from elsewhere as it is: what would act on a screen is named instead of obeyed.

A reason, a log line or a server's answer may hold escape sequences, right-to-left marks or
zero-width letters. Each such character becomes its code point, for example `⟨U+202E⟩`.
"""

import unicodedata
from typing import Final

__all__ = ["cut_at_word", "one_line", "visible"]

_ACTING: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of characters that act instead of being seen."""


def visible(text: str) -> str:
    """Return `text` with every acting character replaced by its code point, on one line.

    Newlines and tabs become single spaces: they are harmless, and a sentence has none.
    """
    return "".join(_shown(character) for character in text)


def one_line(text: str, limit: int) -> str:
    """Return `text` made visible within `limit` characters; what is cut ends with `…`.

    It ends with a whole word, unless that would leave less than half of what there is room for.
    """
    shown = visible(text)
    if len(shown) <= limit:
        return shown
    worded = cut_at_word(shown, limit)
    return worded if len(worded) > limit // 2 else shown[: limit - 1] + "…"


def cut_at_word(text: str, limit: int) -> str:
    """Return `text` within `limit` characters; what is too long ends with a whole word and `…`.

    A word that alone is longer is cut where it must be.
    """
    if len(text) <= limit:
        return text
    head = text[:limit]
    if not head[-1].isspace():
        # The last place between words that leaves room for the ellipsis.
        head = head[: limit - 1] if " " not in head else head[: head.rindex(" ")]
    return f"{head.rstrip()[: limit - 1]}…"


def _shown(character: str) -> str:
    if character in "\n\t":
        return " "
    if unicodedata.category(character) in _ACTING:
        return f"⟨U+{ord(character):04X}⟩"
    return character
