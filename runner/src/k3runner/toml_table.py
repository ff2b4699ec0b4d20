"""Typed reading of TOML tables, so that a wrong subject or tier file gets a sentence."""

from collections.abc import Mapping
from typing import TypeVar

from k3runner.errors import UsageError

__all__ = ["Table"]

T = TypeVar("T")


class Table:
    """One TOML table whose keys must all be read, each with the type that is due."""

    def __init__(self, values: Mapping[str, object], where: str) -> None:
        """Wraps a table.

        Args:
            values: The parsed table.
            where: How error sentences call it, for example `subject k3-tiny.toml [engine]`.
        """
        self._values = dict(values)
        self._where = where

    @property
    def where(self) -> str:
        """How error sentences call the table."""
        return self._where

    @property
    def empty(self) -> bool:
        """Whether nothing is left to read."""
        return not self._values

    def has(self, key: str) -> bool:
        """Whether a key is there and was not read yet."""
        return key in self._values

    def take(self, key: str, kind: type[T], default: T | None = None) -> T:
        """Removes and returns a value.

        Raises:
            UsageError: The key is missing and has no default, or holds another type.
        """
        if key not in self._values:
            if default is not None:
                return default
            raise UsageError(
                f"{self._where}: the key `{key}` is missing.", "Add it; see subjects/k3-tiny.toml."
            )
        value = self._values.pop(key)
        # bool is an int in Python, but `true` is never a meant number.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise UsageError(
                f"{self._where}: `{key}` must be {kind.__name__}, found {value!r}.",
                "Correct the file.",
            )
        return value

    def strings(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Removes and returns a list of strings."""
        found = self.take(key, list, None if default is None else list(default))
        if not all(isinstance(item, str) for item in found):
            raise UsageError(
                f"{self._where}: `{key}` must hold only strings, found {found!r}.",
                "Correct the file.",
            )
        return tuple(found)

    def counts(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Removes and returns a list of whole numbers from 0."""
        found = self.take(key, list, None if default is None else list(default))
        if not all(isinstance(item, int) and item is not True and item >= 0 for item in found):
            raise UsageError(
                f"{self._where}: `{key}` must hold only whole numbers from 0, found {found!r}.",
                "Correct the file.",
            )
        return tuple(found)

    def positives(self, key: str) -> tuple[int, ...]:
        """Removes and returns a list of whole numbers from 1, at least one of them."""
        found = self.counts(key)
        if not found or 0 in found:
            raise UsageError(
                f"{self._where}: `{key}` must hold whole numbers from 1, found {list(found)!r}.",
                "Correct the file.",
            )
        return found

    def string_map(self, key: str) -> dict[str, str]:
        """Removes and returns a table of strings; empty when the key is absent."""
        found = self.take(key, dict, {})
        if not all(isinstance(value, str) for value in found.values()):
            raise UsageError(
                f"{self._where}: `{key}` must hold only strings, found {found!r}.",
                "Correct the file.",
            )
        return {str(name): str(value) for name, value in found.items()}

    def string_lists(self, key: str) -> dict[str, tuple[str, ...]]:
        """Removes and returns a table of lists of strings; empty when the key is absent."""
        inner = self.table(key, optional=True)
        return {name: inner.strings(name) for name in tuple(inner._values)}

    def number(self, key: str) -> float:
        """Removes and returns a number, whole or not."""
        found = self._values.get(key)
        return float(self.take(key, int if isinstance(found, int) else float))

    def table(self, key: str, *, optional: bool = False) -> "Table":
        """Removes and returns a sub-table; an empty one when it is optional and absent."""
        return Table(self.take(key, dict, {} if optional else None), f"{self._where} [{key}]")

    def tables(self, key: str, *, optional: bool = False) -> tuple["Table", ...]:
        """Removes and returns a list of tables; none when it is optional and absent."""
        found = self.take(key, list, [] if optional else None)
        if not all(isinstance(item, dict) for item in found):
            raise UsageError(f"{self._where}: `{key}` must hold tables.", "Correct the file.")
        return tuple(
            Table(item, f"{self._where} [[{key}]] {number}") for number, item in enumerate(found)
        )

    def rest(self) -> dict[str, object]:
        """Removes and returns everything that was not read yet."""
        rest, self._values = self._values, {}
        return rest

    def finish(self) -> None:
        """Checks that every key was read.

        Raises:
            UsageError: A key is unknown.
        """
        if self._values:
            names = ", ".join(f"`{name}`" for name in sorted(self._values))
            raise UsageError(f"{self._where}: unknown key {names}.", "Remove it or correct it.")
