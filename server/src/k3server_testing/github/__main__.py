"""Serves the stand-in on loopback: `python -m k3server_testing.github`.

It prints its address on one line. `PUT /_state` and `POST /_fault` are for the test; everything
else is as the description says, and a request that is not is refused.
"""

import dataclasses
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from k3server_testing.github.answers import Answer
from k3server_testing.github.app_state import AppState
from k3server_testing.github.description import Description, load_description
from k3server_testing.github.state import Fault, GithubState

__all__ = ["main"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    description: Description
    state: GithubState
    lock: Lock

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def log_message(self, *_: object) -> None:
        return

    def _serve(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.lock:
            answer = self._answer(content)
        data = json.dumps(answer.content).encode()
        self.send_response(answer.status)
        for name, value in {**answer.headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _answer(self, content: bytes) -> Answer:
        parts = urlsplit(self.path)
        body = json.loads(content) if content else None
        if parts.path.startswith("/_"):
            return self._control(parts.path, body)
        self.state.requests.append(f"{self.command} {parts.path}")
        fault = self._fault()
        if fault is not None and not fault.after:
            return Answer(fault.status, {"message": "fault"}, fault.headers)
        answer = self._take(parts.path, dict(parse_qsl(parts.query)), body)
        if fault is not None:
            return Answer(fault.status, {"message": "fault"}, fault.headers)
        return answer

    def _take(self, path: str, query: dict[str, str], body: Any) -> Answer:
        found = self.description.find(self.command, path)
        if found is None:
            return Answer(404, {"message": f"no such operation: {self.command} {path}"})
        operation, values = found
        if not self.headers.get("User-Agent"):
            return Answer(403, {"message": "a User-Agent is required"})
        if operation.body is not None:
            errors = [error.message for error in operation.body.iter_errors(body)]
            if errors:
                return Answer(422, {"message": "Validation Failed", "errors": errors[:5]})
        return self.state.take(
            operation, values, query, body, self.headers.get("Authorization") or ""
        )

    def _control(self, path: str, body: Any) -> Answer:
        if path == "/_fault":
            self.state.faults.append(Fault(**body))
        elif path == "/_state" and self.command == "PUT":
            for name, value in body.items():
                setattr(self.state, name, AppState(**value) if name == "app" else value)
        return Answer(200, dataclasses.asdict(self.state))

    def _fault(self) -> Fault | None:
        if not self.state.faults:
            return None
        fault = self.state.faults[0]
        fault.times -= 1
        if fault.times <= 0:
            self.state.faults.pop(0)
        return fault


def main() -> None:
    """Serves until the process is ended."""
    _Handler.description, _Handler.state, _Handler.lock = load_description(), GithubState(), Lock()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
