"""TCP proxy in front of a server. It loses the reply to a chosen message."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class ReplyLosingProxy:
    """Proxy that stops passing replies back once a client has sent ``mark``. The bytes with ``mark`` still arrive."""

    def __init__(self, port: int, mark: bytes) -> None:
        self._port, self._mark, self.is_losing = port, mark, True
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._port))
            lost = threading.Event()
            threading.Thread(target=self._pump, args=(client, server, lost, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, lost, False), daemon=True).start()

    def _pump(self, source: socket.socket, to: socket.socket, lost: threading.Event, is_client: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if is_client and self.is_losing and self._mark in data:
                    lost.set()
                if not is_client and lost.is_set():
                    break
                to.sendall(data)
        for end in (source, to):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
