"""Replaces secrets and identities in text before it enters a bundle. Pure.

It works on the free text of logs and records, never on measured values.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from k3bundle.scrub import ScrubReport, ScrubRule

__all__ = ["Identities", "Scrubber", "map_text"]

_SHORTEST_NAME = 3
_NO_TEXT = frozenset({"code"})
"""Fields that hold a word of a fixed form and no sentence."""
_COMMON_USERS = frozenset({"root", "user", "runner", "nobody", "admin"})
"""User names that identify nobody and would hit ordinary words."""


@dataclass(frozen=True)
class Identities:
    """What this machine must not tell."""

    home: str
    """Home directory."""
    user: str
    """User name."""
    host: str
    """Host name."""
    places: Mapping[str, str]
    """Path -> placeholder, for example the model folder -> `<model>`."""


@dataclass(frozen=True)
class _Rule:
    name: str
    pattern: re.Pattern[str]
    replacement: str


class Scrubber:
    """Applies every rule to texts and counts what it replaced."""

    def __init__(self, identities: Identities) -> None:
        self._rules = _rules(identities)
        self._counts = {rule.name: 0 for rule in self._rules}

    def scrub(self, text: str) -> str:
        """The text without secrets and identities."""
        for rule in self._rules:
            text, replaced = rule.pattern.subn(rule.replacement, text)
            self._counts[rule.name] += replaced
        return text

    def report(self) -> ScrubReport:
        """What was replaced so far; names also the rules that found nothing."""
        return ScrubReport(
            rules=tuple(
                ScrubRule(name=name, replaced=count) for name, count in self._counts.items()
            )
        )


def map_text(value: Any, change: Callable[[str], str]) -> Any:
    """A value of JSON with every text in it changed; keys, and codes of findings, stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(map_text(one, change) for one in value)
    if isinstance(value, dict):
        return {
            key: one if key in _NO_TEXT else map_text(one, change) for key, one in value.items()
        }
    return value


def _rules(identities: Identities) -> tuple[_Rule, ...]:
    rules = list(_SECRETS)
    # Longer places first: a run folder may lie inside the home directory.
    for place in sorted(identities.places, key=len, reverse=True):
        pattern = re.compile(re.escape(place) + r"(?![\w-])")
        rules.append(_Rule(f"path {identities.places[place]}", pattern, identities.places[place]))
    if len(identities.home) > 1:
        pattern = re.compile(re.escape(identities.home) + r"(?![\w-])")
        rules.append(_Rule("home directory", pattern, "<home>"))
    rules.append(
        _Rule(
            "other home directory", re.compile(r"(?<![\w.])/(?:home|Users)/[^/\s:'\"]+"), "<home>"
        )
    )
    for name, word in (("host name", identities.host), ("user name", identities.user)):
        if len(word) >= _SHORTEST_NAME and word not in _COMMON_USERS | {"localhost"}:
            pattern = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
            rules.append(_Rule(name, pattern, f"<{name.partition(' ')[0]}>"))
    return (*rules, *_ADDRESSES)


_SECRETS = (
    _Rule(
        "private key",
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\Z)", re.S),
        "<private-key>",
    ),
    _Rule("Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{16,}"), "<hf-token>"),
    _Rule(
        "GitHub token",
        re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})"),
        "<github-token>",
    ),
    _Rule("AWS key", re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), "<aws-key>"),
    _Rule(
        "authorization header",
        re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"),
        r"\1 <credential>",
    ),
    _Rule(
        "named secret",
        re.compile(
            r"(?i)((?:api[-_]?key|secret[-_a-z]*|password|access[-_]?token)['\"]?\s*"
            r"[=: ]\s*['\"]?)(?!None\b|null\b|False\b|True\b|<)[A-Za-z0-9._~+/=-]{8,}"
        ),
        r"\1<secret>",
    ),
    _Rule("URL credential", re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"), "<credential>"),
    _Rule(
        "GPU identity",
        re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.I),
        "<gpu>",
    ),
)
_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_ADDRESSES = (
    _Rule(
        "IPv4 address",
        re.compile(
            rf"(?<![\w.])(?!127\.|0\.0\.0\.0)(?:{_OCTET}\.){{3}}{_OCTET}(?![\w]|\.\w)",
        ),
        "<address>",
    ),
    _Rule(
        "IPv6 address",
        re.compile(
            r"(?<![\w:.])(?:(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}"
            r"|(?:[0-9A-Fa-f]{1,4}:){1,6}:(?:[0-9A-Fa-f]{1,4}:){0,5}[0-9A-Fa-f]{1,4})(?![\w:])"
        ),
        "<address>",
    ),
    _Rule(
        "MAC address",
        re.compile(r"(?<![\w:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![\w:])", re.I),
        "<address>",
    ),
)
