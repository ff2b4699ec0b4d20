"""A small registry on loopback whose answers a test scripts."""

import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest_asyncio
from aiohttp import web

Scripted = Callable[[web.Request], web.Response | None]


@dataclass
class Registry:
    """Keeps blobs and submissions the way the contract says; scripted answers come first."""

    url: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)
    submissions: dict[str, dict[str, Any]] = field(default_factory=dict)
    script: dict[str, list[Scripted | str]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request.method)
        steps = self.script.get(request.method, [])
        step = steps.pop(0) if steps else None
        if callable(step):
            answer = step(request)
            if answer is not None:
                return answer
        answer = await self._answer(request)
        if step == "lose the answer":
            assert request.transport is not None
            request.transport.abort()
        return answer

    async def _answer(self, request: web.Request) -> web.Response:
        if request.method == "POST":
            return await self._submit(request)
        digest = request.path.rsplit("/", 1)[-1]
        if request.method == "HEAD":
            return web.Response(status=200 if digest in self.blobs else 404)
        data = await request.read()
        if hashlib.sha256(data).hexdigest() != digest:
            return web.Response(status=422)
        new = digest not in self.blobs
        self.blobs[digest] = data
        return web.Response(status=201 if new else 200)

    async def _submit(self, request: web.Request) -> web.Response:
        body = await request.json()
        digest = body["blob_sha256"]
        if digest not in self.blobs:
            return web.json_response({"title": "Unknown blob"}, status=404)
        new = digest not in self.submissions
        self.submissions[digest] = body
        answer = {
            "submission_id": digest,
            "url": f"{self.url}/submissions/{digest[:16]}",
            "bundle_sha256": "ab" * 32,
            "verdict": "PASS",
            "trust": "self-reported",
        }
        return web.json_response(answer, status=201 if new else 200)


@pytest_asyncio.fixture
async def registry() -> AsyncIterator[Registry]:
    found = Registry()
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", found.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    found.url = f"http://{host}:{port}"
    yield found
    await runner.cleanup()
