"""Renders pages: templates, the style sheet, and what templates may call."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from k3server.errors import Problem, PublicError
from k3server.submission import SubmissionRow
from k3server.trust import NONCE_SENTENCES, TRUST_SENTENCES
from k3server.views import wording

__all__ = ["Pages", "StaticFile"]

_ROWS: Final = 1024
"""Rows of lists that are remembered, about 4 KB each."""
_WORDS: Final = 64
"""Statuses and levels of trust that are remembered as markup; there are about twenty."""
_STATIC: Final = {"style.css": "text/css; charset=utf-8", "mark.svg": "image/svg+xml"}


@dataclass(frozen=True)
class StaticFile:
    """A file that every page may load."""

    content: bytes
    media_type: str


class Pages:
    """Renders templates to answers."""

    def __init__(self, public_url: str) -> None:
        folder = resources.files("k3server") / "static"
        self._static = {
            name: StaticFile((folder / name).read_bytes(), media_type)
            for name, media_type in _STATIC.items()
        }
        tag = hashlib.sha256(self._static["style.css"].content).hexdigest()[:16]
        # The whole autoescape, whatever a template is called, and every value made visible.
        self._environment = Environment(
            loader=PackageLoader("k3server"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_visible,
            trim_blocks=True,
            lstrip_blocks=True,
            # Templates are part of the package: no page looks whether their files changed.
            auto_reload=False,
        )
        self._environment.globals.update(
            stylesheet=f"/static/style.css?v={tag}",
            public_url=public_url,
            mark=wording.mark,
            number_text=wording.number_text,
            percent_text=wording.percent_text,
            bytes_text=wording.bytes_text,
            time_text=wording.time_text,
            title_sentence=wording.title_sentence,
            claim_questions=wording.CLAIM_QUESTIONS,
            trust_sentences=TRUST_SENTENCES,
            nonce_sentences=NONCE_SENTENCES,
            row_html=self._row_html(),
            word_html=self._word_html(),
        )

    def page(self, template: str, **values: Any) -> Response:
        """A page with status 200."""
        return HTMLResponse(self._environment.get_template(template).render(values))

    def document(
        self, template: str, media_type: str, headers: Mapping[str, str], **values: Any
    ) -> Response:
        """A document that is no page, with status 200."""
        text = self._environment.get_template(template).render(values)
        return Response(text, media_type=media_type, headers=dict(headers))

    def nothing(self, what: str) -> PublicError:
        """The error of a page about something of which nothing was submitted."""
        detail = (
            f"Expected submissions for {what}, found none. "
            "Check the address, or be the first: the front page says how to submit."
        )
        return PublicError(Problem(404, "Nothing has been submitted here", detail))

    def problem(self, problem: Problem) -> Response:
        """A page that tells a problem, with its status."""
        text = self._environment.get_template("problem.html").render(problem=problem)
        return HTMLResponse(text, status_code=problem.status, headers=dict(problem.headers))

    def static(self, name: str) -> StaticFile | None:
        """A static file; None when there is none of this name."""
        return self._static.get(name)

    def _row_html(self) -> Callable[[str, SubmissionRow], Markup]:
        """Rows of lists as markup: most of a list page, and mostly the same rows as before.

        A row's markup follows from the row alone, and rows are equal only if all of their fields
        are: when anything about a submission changes, its row is laid out again.
        """

        @lru_cache(maxsize=_ROWS)
        def row_html(macro: str, row: SubmissionRow) -> Markup:
            made = getattr(self._environment.get_template("parts.html").module, macro)(row)
            return Markup(made)  # noqa: S704

        return row_html

    def _word_html(self) -> Callable[[str, str], Markup]:
        """A status or a level as markup, which follows from its name alone: most of each row."""

        @lru_cache(maxsize=_WORDS)
        def word_html(macro: str, word: str) -> Markup:
            made = getattr(self._environment.get_template("parts.html").module, macro)(word)
            return Markup(made)  # noqa: S704

        return word_html


def _visible(value: object) -> object:
    """Spell out invisible characters in every value that reaches a page."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return wording.visible(value)
    return value
