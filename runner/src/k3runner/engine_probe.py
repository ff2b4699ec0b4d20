"""Asks a running engine about itself: health, version, configuration, step counts, counters.

What a server does not offer is reported as absent; what it offers in a wrong shape is an error,
and so is silence: a busy engine must not look like one that has nothing to say.
"""

import json
from typing import Any, Literal

import aiohttp
from pydantic import ValidationError

from k3bundle.coverage import CoverageSnapshot, EngineCounters, StepCount
from k3bundle.record import Record
from k3runner.effective_config import flatten_config
from k3runner.errors import EngineError
from k3runner.metrics_text import parse_counters

__all__ = ["EngineProbe", "EngineSilentError"]

Moment = Literal["before", "after"]
_OK = 200
_CONFIG = "vllm_config"
_ENVIRONMENT = "vllm_env"
"""Parts of the server's own report that are configuration; the rest describes the machine."""


_HEALTH_LIMIT_S = 5.0


class EngineSilentError(EngineError):
    """The server did not answer at all, or not in time."""


class _CoverageReport(Record):
    schema_name: Literal["k3decode.coverage/1"]
    source: Literal["host", "device"]
    configured_backend: str
    counts: tuple[StepCount, ...]


class EngineProbe:
    """Administrative requests to one server. Use as an asynchronous context manager."""

    def __init__(self, url: str, limit_s: float) -> None:
        """Wraps a server.

        Args:
            url: Base URL without trailing slash.
            limit_s: Limit of each request.
        """
        # A connection for each request: after an error of its own a server closes the connection,
        # and the next request must not find it half closed.
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
        self._url = url
        self._limit_s = limit_s

    async def __aenter__(self) -> "EngineProbe":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def healthy(self) -> bool:
        """Whether the health check answers 200."""
        try:
            status, _ = await self._request("GET", "/health", limit_s=_HEALTH_LIMIT_S)
        except EngineSilentError:
            return False
        return status == _OK

    async def served_models(self) -> tuple[str, ...]:
        """Names of the served models; empty when the server does not say."""
        listing = await self._json("GET", "/v1/models")
        data = listing.get("data") if isinstance(listing, dict) else None
        return tuple(str(one["id"]) for one in data or [] if isinstance(one, dict) and "id" in one)

    async def version(self) -> str:
        """Version that the server reports; `unknown` when it does not."""
        found = await self._json("GET", "/version")
        return str(found.get("version", "unknown"))[:80] if isinstance(found, dict) else "unknown"

    async def effective_config(self, volatile: tuple[str, ...]) -> dict[str, str]:
        """Effective configuration, flattened; empty when the server offers none.

        Args:
            volatile: Glob patterns of dotted keys to leave out.
        """
        found = await self._json("GET", "/server_info?config_format=json")
        if not isinstance(found, dict):
            return {}
        config = found.get(_CONFIG)
        parts = dict(config) if isinstance(config, dict) else {}
        return flatten_config({**parts, _ENVIRONMENT: found.get(_ENVIRONMENT, {})}, volatile)

    async def reset_prefix_cache(self) -> bool:
        """Empties the prefix cache; False when the server offers no way."""
        status, _ = await self._request("POST", "/reset_prefix_cache")
        return status == _OK

    async def switch_profiler(self, verb: Literal["start", "stop"], limit_s: float) -> bool:
        """Switches the engine's profiler; False when it has none that can be switched.

        Args:
            verb: What to do. A stop returns when the traces are written.
            limit_s: Limit of the request.
        """
        status, _ = await self._request("POST", f"/{verb}_profile", limit_s=limit_s)
        return status == _OK

    async def token_count(self, model: str, text: str) -> int | None:
        """Tokens that the server's own tokenizer finds in a text; None when it offers no way."""
        status, answer = await self._request(
            "POST", "/tokenize", {"model": model, "prompt": text, "add_special_tokens": False}
        )
        try:
            count = json.loads(answer)["count"] if status == _OK else None
        except (ValueError, KeyError, TypeError):
            return None
        return count if type(count) is int and count >= 0 else None

    async def coverage(
        self, method: str | None, *, boot_id: str, cell_id: str, moment: Moment
    ) -> CoverageSnapshot:
        """Step counts since the engine started.

        Args:
            method: Worker method that returns the counts; None: there is none to ask.
            boot_id: Boot that is asked.
            cell_id: Cell that the snapshot brackets.
            moment: Before or after the cell.

        Raises:
            EngineError: The engine does not answer, or not with step counts.
        """
        reports = [] if method is None else await self._worker_reports(method)
        if not reports:
            return CoverageSnapshot(
                boot_id=boot_id,
                cell_id=cell_id,
                moment=moment,
                source="unavailable",
                configured_backend=None,
                counts=(),
            )
        # Every rank must decide alike, so one rank's counts stand for all of them.
        if any(report != reports[0] for report in reports[1:]):
            raise EngineError(
                f"The ranks of the engine report different step counts around {cell_id}.",
                "The decode path must decide alike on all ranks; report it with the log.",
            )
        return CoverageSnapshot(
            boot_id=boot_id,
            cell_id=cell_id,
            moment=moment,
            source=reports[0].source,
            configured_backend=reports[0].configured_backend,
            counts=reports[0].counts,
        )

    async def counters(self, *, boot_id: str, cell_id: str, moment: Moment) -> EngineCounters:
        """Counters of the metrics page; empty when there is none."""
        status, text = await self._request("GET", "/metrics")
        return EngineCounters(
            boot_id=boot_id,
            cell_id=cell_id,
            moment=moment,
            counters=parse_counters(text, prefix="vllm:") if status == _OK else {},
        )

    async def _worker_reports(self, method: str) -> list[_CoverageReport]:
        status, answer = await self._request("POST", "/collective_rpc", {"method": method})
        if status != _OK:
            return []
        try:
            results = json.loads(answer)["results"]
            return [_parse_report(text) for text in results]
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            raise EngineError(
                f"The engine's step counts are not what is due: {error}: {answer[:300]}",
                f"The worker method `{method}` must return k3decode.coverage/1 as JSON text.",
            ) from error

    async def _json(self, verb: str, path: str) -> Any:
        status, answer = await self._request(verb, path)
        if status != _OK:
            return None
        try:
            return json.loads(answer)
        except ValueError:
            return None

    async def _request(
        self, verb: str, path: str, body: object = None, limit_s: float | None = None
    ) -> tuple[int, str]:
        """Status and text.

        Raises:
            EngineSilentError: The server did not answer in time.
        """
        limit = aiohttp.ClientTimeout(total=limit_s or self._limit_s)
        try:
            async with self._session.request(
                verb, self._url + path, json=body, timeout=limit
            ) as response:
                return response.status, await response.text("utf-8", "replace")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise EngineSilentError(
                f"The server at {self._url} did not answer {verb} {path} within "
                f"{limit.total:g} s: {error!r}.",
                "Look at its log; a machine with less to do answers sooner.",
            ) from error


def _parse_report(text: str) -> _CoverageReport:
    found = json.loads(text)
    # `schema` is a method name of pydantic models, so the field has another name here.
    found["schema_name"] = found.pop("schema")
    return _CoverageReport.model_validate_json(json.dumps(found))
