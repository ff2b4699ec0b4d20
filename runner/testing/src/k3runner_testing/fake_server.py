"""The fake server: OpenAI endpoints and the administrative ones that the referee asks."""

import asyncio
import json
import os
import secrets
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from k3runner_testing.behaviour import Behaviour, Fault
from k3runner_testing.content import Generated, generate
from k3runner_testing.fake_kernels import FAKE_TOKEN

__all__ = ["FakeServer", "create_app"]

_CHUNKS_BEFORE_FAULT = 2
_PING_S = 0.05


@dataclass
class FakeServer:
    """State of one server; tests may read it and may swap the behaviour between requests."""

    behaviour: Behaviour = field(default_factory=Behaviour)
    """How it behaves."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of all generation requests, in order of arrival."""
    decode_steps: int = 0
    """Decode steps so far, one per chunk."""
    prefill_steps: int = 0
    """Prefill steps so far."""
    in_flight: int = 0
    """Requests being answered now."""
    most_in_flight: int = 0
    """Largest number of requests answered at the same time."""
    prompt_tokens: int = 0
    """Prompt tokens so far."""
    generated_tokens: int = 0
    """Generated tokens so far."""
    cache_resets: int = 0
    """How often the prefix cache was emptied."""

    def fault_of(self, number: int) -> Fault:
        """The fault of a request."""
        first = self.behaviour.faulty_from
        last = first + self.behaviour.faulty_count
        return self.behaviour.fault if first <= number < last else "none"

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Answers `/v1/completions` and `/v1/chat/completions`."""
        body = await request.json()
        number = len(self.bodies)
        self.bodies.append(body)
        fault = self.fault_of(number)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if fault == "exit":
                # As a crash does: no word to the clients, no clean-up.
                os._exit(3)
            if fault == "http_500":
                said = FAKE_TOKEN if self.behaviour.tells_a_token else "out of luck"
                return web.json_response({"error": {"message": said}}, status=500)
            answer = generate(body, self.behaviour, number)
            first_extra_s = self.behaviour.first_request_extra_s if number == 0 else 0.0
            await asyncio.sleep(self.behaviour.ttft_s + first_extra_s)
            self.prefill_steps += 1
            self.prompt_tokens += answer.prompt_tokens
            if not body.get("stream"):
                self.decode_steps += len(answer.token_ids)
                return web.json_response(self._block(request, answer))
            return await self._stream(request, body, answer, fault)
        finally:
            self.in_flight -= 1

    async def _stream(
        self, request: web.Request, body: dict[str, Any], answer: Generated, fault: Fault
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        total = len(answer.token_ids) // (2 if fault == "short" else 1)
        for order, (start, stop) in enumerate(self._chunks(total)):
            if order == _CHUNKS_BEFORE_FAULT and fault in ("cut", "hang", "error_event"):
                await self._break(request, response, fault)
                return response
            if order:
                await asyncio.sleep(self.behaviour.itl_s)
            chunk = self._chunk(request, body, answer, start, stop)
            if stop == total and fault != "no_finish":
                chunk["choices"][0]["finish_reason"] = answer.finish_reason
            data = json.dumps(chunk)
            broken = fault == "malformed" and order == 1
            await response.write(f"data: {data[:-5] if broken else data}\n\n".encode())
            self.decode_steps += 1
            self.generated_tokens += stop - start
        if fault != "no_usage":
            usage = json.dumps({"choices": [], "usage": self._usage(answer, total)})
            await response.write(f"data: {usage}\n\n".encode())
        if fault != "no_done":
            await response.write(b"data: [DONE]\n\n")
        return response

    async def _break(
        self, request: web.Request, response: web.StreamResponse, fault: Fault
    ) -> None:
        if fault == "error_event":
            await response.write(b'data: {"error": {"message": "engine died", "code": 500}}\n\n')
            await response.write(b"data: [DONE]\n\n")
            return
        if fault == "cut":
            if request.transport is not None:
                request.transport.close()
            return
        while request.transport is not None and not request.transport.is_closing():
            await response.write(b": ping\n\n")
            await asyncio.sleep(_PING_S)

    def _chunks(self, total: int) -> list[tuple[int, int]]:
        size = self.behaviour.chunk_tokens
        if size == 0:
            return [(0, total)]
        starts = [0, *range(1, total, size)]
        return [(start, min(total, start + (size if start else 1))) for start in starts]

    def _chunk(
        self, request: web.Request, body: dict[str, Any], answer: Generated, start: int, stop: int
    ) -> dict[str, Any]:
        text = "".join(answer.texts[start:stop])
        choice: dict[str, Any] = {"index": 0, "finish_reason": None}
        if request.path.endswith("/chat/completions"):
            reasons = start < self.behaviour.reasoning_tokens
            choice["delta"] = {"reasoning" if reasons else "content": text}
        else:
            choice["text"] = text
            if body.get("logprobs"):
                choice["logprobs"] = answer.logprobs(start, stop)
        if self.behaviour.token_ids and body.get("return_token_ids"):
            choice["token_ids"] = list(answer.token_ids[start:stop])
        chunk: dict[str, Any] = {"choices": [choice]}
        if self.behaviour.usage_per_chunk and self.fault_of(len(self.bodies) - 1) != "no_usage":
            chunk["usage"] = self._usage(answer, stop)
        return chunk

    def _block(self, request: web.Request, answer: Generated) -> dict[str, Any]:
        text = "".join(answer.texts)
        choice: dict[str, Any] = {
            "index": 0,
            "finish_reason": answer.finish_reason,
            "token_ids": list(answer.token_ids),
        }
        if request.path.endswith("/chat/completions"):
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        return {"choices": [choice], "usage": self._usage(answer, len(answer.token_ids))}

    def _usage(self, answer: Generated, completion_tokens: int) -> dict[str, Any]:
        cached = int(answer.prompt_tokens * self.behaviour.cached_share)
        return {
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": completion_tokens,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    async def tokenize(self, request: web.Request) -> web.Response:
        """Answers `/tokenize` for texts of this server."""
        words = (await request.json())["prompt"].split()
        return web.json_response({"count": round(len(words) * self.behaviour.text_share)})

    async def models(self, _request: web.Request) -> web.Response:
        """Answers `/v1/models`."""
        return web.json_response({"data": [{"id": self.behaviour.model}]})

    async def health(self, _request: web.Request) -> web.Response:
        """Answers `/health`."""
        return web.Response(status=503 if self.behaviour.start == "never_healthy" else 200)

    async def version(self, _request: web.Request) -> web.Response:
        """Answers `/version`."""
        return web.json_response({"version": "0.0.fake"})

    async def server_info(self, _request: web.Request) -> web.Response:
        """Answers `/server_info`."""
        await asyncio.sleep(self.behaviour.config_delay_s)
        config: dict[str, Any] = {
            "additional_config": {"k3decode": {"decode_backend": self.behaviour.backend}},
            "model_config": {"dtype": "float32", "max_model_len": 2048},
        }
        if self.behaviour.tells_a_token:
            config |= {"login": FAKE_TOKEN}
        if self.behaviour.chance_config:
            config |= {"instance_id": secrets.token_hex(4)}
        return web.json_response({"vllm_config": config, "vllm_env": {"VLLM_USE_V1": True}})

    async def collective_rpc(self, request: web.Request) -> web.Response:
        """Answers `/collective_rpc` for the coverage method."""
        if (await request.json())["method"] != "k3decode_coverage":
            return web.Response(status=400)
        path = self.behaviour.served_path or self.behaviour.backend
        stepped_aside = path != self.behaviour.backend
        reason = "the step is not eligible" if stepped_aside else None
        counts = [
            {"kind": kind, "path": path, "reason": reason, "count": count}
            for kind, count in (("decode", self.decode_steps), ("prefill", self.prefill_steps))
        ]
        report = {
            "schema": "k3decode.coverage/1",
            "source": "host",
            "configured_backend": self.behaviour.backend,
            "counts": counts,
        }
        return web.json_response({"results": [json.dumps(report)]})

    async def reset_prefix_cache(self, _request: web.Request) -> web.Response:
        """Answers `/reset_prefix_cache`."""
        self.cache_resets += 1
        return web.Response()

    async def metrics(self, _request: web.Request) -> web.Response:
        """Answers `/metrics`."""
        hits = int(self.prompt_tokens * self.behaviour.cached_share)
        lines = [
            "# TYPE vllm:prompt_tokens_total counter",
            f'vllm:prompt_tokens_total{{model_name="{self.behaviour.model}"}} {self.prompt_tokens}',
            f"vllm:generation_tokens_total {self.generated_tokens}",
            f"vllm:prefix_cache_queries_total {self.prompt_tokens}",
            f"vllm:prefix_cache_hits_total {hits}",
            "vllm:num_requests_running 0",
        ]
        return web.Response(text="\n".join(lines) + "\n")


def create_app(server: FakeServer) -> web.Application:
    """The application of a fake server."""
    app = web.Application()
    app.router.add_post("/v1/completions", server.complete)
    app.router.add_post("/v1/chat/completions", server.complete)
    app.router.add_get("/v1/models", server.models)
    app.router.add_get("/health", server.health)
    if server.behaviour.administrative:
        app.router.add_get("/version", server.version)
        app.router.add_post("/tokenize", server.tokenize)
        app.router.add_get("/server_info", server.server_info)
        app.router.add_post("/collective_rpc", server.collective_rpc)
        app.router.add_post("/reset_prefix_cache", server.reset_prefix_cache)
        app.router.add_get("/metrics", server.metrics)
    return app
