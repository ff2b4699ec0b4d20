"""A server that costs next to nothing: `python -m k3runner_testing.fast_server --tick-ms 3.2`.

It makes every stream's events before the first one is sent and then only writes prepared bytes to
sockets, one event to each stream per tick, as an engine does that decodes a batch step by step. So
a client can be loaded with tens of thousands of events per second by one core beside it, and what
is measured is the client.

Prints its URL as a JSON line when it listens, and what it did when its standard input ends.
"""

import argparse
import json
import os
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field

__all__ = ["main", "prepared_events"]

_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
_OTHER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n"
_DONE = b"data: [DONE]\n\n"
_READ_BYTES = 1 << 20


def prepared_events(tokens: int, prompt_tokens: int, *, ids: bool, usage: bool) -> list[bytes]:
    """The HTTP chunks of a stream: one event per token, then the rest of the stream in one.

    Args:
        tokens: Tokens of the answer.
        prompt_tokens: Tokens of the prompt, as usage reports them.
        ids: Whether each event holds its token id.
        usage: Whether each event holds the usage so far.
    """
    events = [_event(at, tokens, prompt_tokens, ids=ids, usage=usage) for at in range(tokens)]
    final = {"id": "cmpl-0", "choices": [], "usage": _usage(prompt_tokens, tokens)}
    rest = f"data: {json.dumps(final, separators=(',', ':'))}\n\n".encode()
    return [*map(_chunk, events), _chunk(rest) + _chunk(_DONE) + _chunk(b"")]


def _event(at: int, tokens: int, prompt_tokens: int, *, ids: bool, usage: bool) -> bytes:
    token = 100 + at % 800
    choice = {
        "index": 0,
        "text": f" w{token}",
        "logprobs": None,
        "finish_reason": "length" if at == tokens - 1 else None,
        "stop_reason": None,
    }
    event = {
        "id": "cmpl-a7f03ac4a0b14a53a37f6f2b3c6f9a11",
        "object": "text_completion",
        "created": 1_764_000_000,
        "model": "k3-tiny",
        "choices": [choice | ({"token_ids": [token]} if ids else {})],
    }
    if usage:
        event["usage"] = _usage(prompt_tokens, at + 1)
    return f"data: {json.dumps(event, separators=(',', ':'))}\n\n".encode()


def _usage(prompt_tokens: int, tokens: int) -> dict[str, int]:
    total = prompt_tokens + tokens
    return {"prompt_tokens": prompt_tokens, "total_tokens": total, "completion_tokens": tokens}


def _chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


@dataclass
class _Client:
    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)
    chunks: list[bytes] = field(default_factory=list)
    at: int = 0


@dataclass
class _Server:
    tick_ns: int
    listener: socket.socket
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    streams: list[_Client] = field(default_factory=list)
    prepared: dict[tuple[int, int, bool, bool], list[bytes]] = field(default_factory=dict)
    events: int = 0
    late_ns: int = 0

    def serve(self) -> None:
        """Serves until standard input ends."""
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(sys.stdin, selectors.EVENT_READ)
        due_ns = time.monotonic_ns()
        while True:
            wait_s = max(0.0, (due_ns - time.monotonic_ns()) / 1e9) if self.streams else None
            for key, _ in self.selector.select(wait_s):
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is self.listener:
                    self._accept()
                else:
                    self._read(key.data)
            now_ns = time.monotonic_ns()
            if not self.streams:
                due_ns = now_ns
            elif now_ns >= due_ns:
                self.late_ns = max(self.late_ns, now_ns - due_ns)
                due_ns = max(due_ns + self.tick_ns, now_ns - 10 * self.tick_ns)
                self._tick()

    def _accept(self) -> None:
        found, _ = self.listener.accept()
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.selector.register(found, selectors.EVENT_READ, _Client(found))

    def _read(self, client: _Client) -> None:
        try:
            content = client.socket.recv(_READ_BYTES)
        except ConnectionError:
            content = b""
        if not content:
            self._drop(client)
            return
        client.received += content
        head, blank, body = client.received.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == _LENGTH), 0
        )
        if not blank or len(body) < length:
            return
        client.received.clear()
        if not head.startswith(b"POST /v1/completions "):
            client.socket.sendall(_OTHER)
            return
        client.chunks, client.at = self._chunks_of(json.loads(bytes(body))), 0
        client.socket.sendall(_HEAD)
        self.streams.append(client)

    def _chunks_of(self, body: dict[str, object]) -> list[bytes]:
        prompt = body.get("prompt")
        options = body.get("stream_options")
        key = (
            int(str(body["max_tokens"])),
            len(prompt) if isinstance(prompt, list) else 16,
            bool(body.get("return_token_ids")),
            isinstance(options, dict) and bool(options.get("continuous_usage_stats")),
        )
        if key not in self.prepared:
            self.prepared[key] = prepared_events(key[0], key[1], ids=key[2], usage=key[3])
        return self.prepared[key]

    def _tick(self) -> None:
        ended = []
        for client in self.streams:
            try:
                client.socket.sendall(client.chunks[client.at])
            except ConnectionError:
                ended.append(client)
                continue
            client.at += 1
            if client.at == len(client.chunks):
                ended.append(client)
        self.events += len(self.streams)
        for client in ended:
            self.streams.remove(client)

    def _drop(self, client: _Client) -> None:
        self.selector.unregister(client.socket)
        client.socket.close()
        if client in self.streams:
            self.streams.remove(client)


_LENGTH = b"content-length:"


def main(arguments: list[str]) -> None:
    """Serves until standard input ends."""
    parser = argparse.ArgumentParser(prog="fast_server")
    parser.add_argument("--tick-ms", type=float, required=True, help="time between two events")
    options = parser.parse_args(arguments)
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    server = _Server(round(options.tick_ms * 1e6), listener)
    print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
    cpu_ns = time.process_time_ns()
    server.serve()
    used_s = (time.process_time_ns() - cpu_ns) / 1e9
    said = {"events": server.events, "cpu_s": used_s, "late_ms": server.late_ns / 1e6}
    print(json.dumps(said), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
