"""HTTP server in front of another one, which passes requests on or refuses them."""

from __future__ import annotations

import http.client
import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.s3_rights import Rights


class RefusingProxy:
    """Proxy that refuses chosen requests.

    ``refuse``: from the line of a request (``HEAD /bucket/key``) to a status with a code or a whole body; None passes
    it on. ``rights``: of the user, which may refuse a request, and change an answer. ``lines``: the requests so far.
    """

    def __init__(self, host: str, port: int) -> None:
        self.refuse: Callable[[str], tuple[int, str] | None] = lambda line: None
        self.rights: Rights | None = None
        self.lines: list[str] = []
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                line = f"{self.command} {self.path}"
                proxy.lines.append(line)
                refused = proxy.refuse(line) or (proxy.rights and proxy.rights.refusal(line, body))
                if refused:
                    return self.refuse(*refused)
                connection = http.client.HTTPConnection(host, port, timeout=60)
                connection.request(self.command, self.path, body, dict(self.headers))
                reply = connection.getresponse()
                answer = reply.read()
                connection.close()
                if proxy.rights and (refused := proxy.rights.refusal_of_absent(line, reply.status)):
                    return self.refuse(*refused)
                return self.give(reply.status, dict(reply.getheaders()), answer)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

            def refuse(self, status: int, code: str) -> None:
                text = f"<Error><Code>{code}</Code><Message>refused by a test</Message></Error>"
                text = code if code.startswith("<") else text
                self.give(status, {"Content-Type": "application/xml"}, text.encode())

            def give(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                        self.send_header(name, value)
                length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(body))
                self.send_header("Content-Length", length)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def refusing_proxy(host: str, port: int) -> Iterator[RefusingProxy]:
    proxy = RefusingProxy(host, port)
    thread = threading.Thread(target=proxy.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.server.shutdown()
        thread.join()
        proxy.server.server_close()
