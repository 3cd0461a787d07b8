"""A server that accepts connections and never answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SilentServer:
    """``connections``: how many clients have connected."""

    def __init__(self) -> None:
        self.connections = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self._held: list[socket.socket] = []

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:  # closed
                return
            self._held.append(connection)
            self.connections += 1

    def close(self) -> None:
        """End all connections. A second call does nothing."""
        if self._server.fileno() < 0:
            return
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for connection in self._held:
            connection.close()


@contextmanager
def silent_server() -> Iterator[SilentServer]:
    server = SilentServer()
    thread = threading.Thread(target=server.accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()
