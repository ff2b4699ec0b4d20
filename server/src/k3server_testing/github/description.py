"""The published description of the interface: which request is which, and what is due in it."""

import json
import re
from copy import deepcopy
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator

__all__ = ["Description", "Operation", "load_description"]


_FILE = "response-if-content-is-a-file"
"""Contents have an example for each kind; a file is what is asked for."""


@dataclass(frozen=True)
class Operation:
    """One operation of the interface."""

    operation_id: str
    """Its name in the description."""
    status: int
    """Status of a good answer."""
    example: Any
    """A good answer."""
    body: Draft202012Validator | None
    """What a request body must be; None where it has none."""


@dataclass(frozen=True)
class _Route:
    method: str
    pattern: re.Pattern[str]
    operation: Operation


class Description:
    """All operations."""

    def __init__(self, routes: list[_Route]) -> None:
        self._routes = routes

    def find(self, method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
        """The operation of a request and the values in its path; None where there is none."""
        for route in self._routes:
            found = route.pattern.fullmatch(path)
            if route.method == method and found:
                return route.operation, found.groupdict()
        return None


def load_description() -> Description:
    """Reads the description that lies beside this module."""
    text = resources.files(__package__).joinpath("api.json").read_text("utf-8")
    found = json.loads(text)
    routes = [
        _Route(method.upper(), _pattern(path), _operation(found, operation))
        for path, methods in found["paths"].items()
        for method, operation in methods.items()
    ]
    return Description(routes)


def _pattern(path: str) -> re.Pattern[str]:
    # The path of a file has slashes, every other value has none.
    text = re.sub(r"\{path\}", "(?P<path>.+)", path)
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", text))


def _operation(found: dict[str, Any], operation: dict[str, Any]) -> Operation:
    ((status, response),) = operation["responses"].items()
    content = response["content"]["application/json"]
    examples = content["examples"]
    example = examples.get(_FILE) or next(iter(examples.values()))
    body = operation.get("requestBody")
    return Operation(
        operation_id=operation["operationId"],
        status=int(status),
        example=_followed(found, example)["value"],
        body=None if body is None else _validator(found, body),
    )


def _followed(found: dict[str, Any], value: dict[str, Any]) -> Any:
    reference = value.get("$ref")
    if reference is None:
        return value
    place: Any = found
    for step in reference.removeprefix("#/").split("/"):
        place = place[step]
    return place


def _validator(found: dict[str, Any], body: dict[str, Any]) -> Draft202012Validator:
    schema = deepcopy(body["content"]["application/json"]["schema"])
    return Draft202012Validator({**schema, "components": found["components"]})
