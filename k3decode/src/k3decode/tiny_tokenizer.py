"""A byte-level BPE tokenizer made from a word list, as the content of a `tokenizer.json`.

Pure and independent of any tokenizer library's trainer, so the file is the same everywhere. Every
byte is a token, so any text can be encoded; common words and word parts are single tokens.
"""

from collections import Counter
from itertools import pairwise

__all__ = ["CHAT_TEMPLATE", "END", "PAD", "SPECIAL_TOKENS", "START", "tokenizer_json"]

PAD, START, END = "<|pad|>", "<|start|>", "<|end|>"
SPECIAL_TOKENS = (PAD, START, END)
"""Ids 0, 1, 2."""

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|start|>assistant\n{%- endif -%}"
)

_WORDS = """
a about above across add after again against air all almost along already also always among an and
animal another answer any are area around as ask at away back base be became because become been
before began behind being below best better between big black boat body book both box bring brought
build but by call came can cannot car carry center certain change check children city class clear
close cold color come common complete contain could country course cover cross cut day decide deep
did differ direct do does dog door down draw drive dry during each early earth east eat end enough
even ever every example eye face fact fall family far farm fast father feel feet few field figure
fill final find fire first fish five fly follow food foot for force form found four free friend from
front full game gave general girl give go gold good got govern great green ground group grow had
half hand happen hard has have he head hear heat help her here high him his hold home horse hot hour
house how hundred idea if in inch island it just keep kind king knew know land language large last
late laugh lay lead learn leave left less let letter life light like line list listen little live
long look love low machine made main make man many map mark may me mean measure men might mile mind
minute miss money moon more morning most mother mountain move much music must my name near need
never new next night no north not note nothing notice noun now number object of off often oh old on
once one only open or order other our out over own page paper part pass pattern people perhaps
person picture piece place plain plan plane plant play point port pose possible pound power press
problem produce product pull put question quick rain ran reach read ready real record red remember
rest right river road rock room round rule run said same saw say school science sea second see seem
self sentence serve set several shape she ship short should show side simple since sing sit six size
sleep slow small snow so some song soon sound south special spell stand star start state stay step
still stood stop story street strong study such sun sure surface system table tail take talk teach
tell ten test than that the their them then there these they thing think this those though thought
thousand three through time to together told too took top toward town travel tree true try turn two
under unit until up upon us use usual vary verb very voice vowel walk want war warm was watch water
way we week weight well went were west what wheel when where which while white who whole why will
wind with wonder wood word work world would write year yes you young your
"""


def tokenizer_json(vocab_size: int) -> dict[str, object]:
    """Content of a `tokenizer.json` with exactly `vocab_size` tokens.

    Raises:
        ValueError: the word list cannot fill so many tokens, or not even all bytes fit.
    """
    alphabet = sorted(_byte_characters().values())
    tokens = [*SPECIAL_TOKENS, *alphabet]
    if vocab_size < len(tokens):
        raise ValueError(
            f"a byte-level vocabulary needs at least {len(tokens)} tokens, found {vocab_size}: "
            "raise vocab_size"
        )
    merges = _merges(_words(), set(tokens), vocab_size - len(tokens))
    tokens += [left + right for left, right in merges]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_special(number, text) for number, text in enumerate(SPECIAL_TOKENS)],
        "normalizer": None,
        "pre_tokenizer": byte_level | {"use_regex": True},
        "post_processor": None,
        "decoder": byte_level | {"use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [list(pair) for pair in merges],
        },
    }


def _special(number: int, text: str) -> dict[str, object]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": text, **flags, "special": True}


def _byte_characters() -> dict[int, str]:
    """The byte-level convention: printable Latin-1 bytes stand for themselves.

    The other bytes are numbered from 256 on.
    """
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    mapped = {byte: chr(256 + position) for position, byte in enumerate(others)}
    return mapped | {byte: chr(byte) for byte in printable}


def _words() -> list[list[str]]:
    """Each word with the space before it, as characters of the byte-level alphabet."""
    characters = _byte_characters()
    return [[characters[byte] for byte in f" {word}".encode()] for word in _WORDS.split()]


def _merges(words: list[list[str]], known: set[str], count: int) -> list[tuple[str, str]]:
    """The `count` most useful merges, each the most frequent pair left; ties by text."""
    merges: list[tuple[str, str]] = []
    pairs = Counter(pair for word in words for pair in pairwise(word))
    while len(merges) < count:
        fresh = [(-seen, pair) for pair, seen in pairs.items() if "".join(pair) not in known]
        if not fresh:
            raise ValueError(
                f"the word list gives {len(merges)} merges and {count} are needed: lower "
                "vocab_size or lengthen the list"
            )
        best = min(fresh)[1]
        merges.append(best)
        known.add("".join(best))
        for position, word in enumerate(words):
            if best in pairwise(word):
                words[position] = _merged(word, best)
                pairs.subtract(pairwise(word))
                pairs.update(pairwise(words[position]))
        pairs = +pairs
    return merges


def _merged(word: list[str], pair: tuple[str, str]) -> list[str]:
    out: list[str] = []
    for character in word:
        if out and (out[-1], character) == pair:
            out[-1] += character
        else:
            out.append(character)
    return out
