"""A throw-away PostgreSQL server on this machine."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.certificates import Keys
from tests.support.processes import Process, is_alive, stands_still
from tests.support.unprivileged import give_to_unprivileged, unprivileged_command
from tests.support.waiting import wait_until

NOT_INSTALLED = "PostgreSQL is not installed (no initdb was found): apt-get install postgresql"
_USER = "airflow"
_SETTINGS = {"fsync": "off", "unix_socket_directories": "", "listen_addresses": "127.0.0.1", "max_connections": "200"}


def initdb() -> str | None:
    """Return the path of initdb. Debian keeps a server's programs out of PATH."""
    versions = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda folder: float(Path(folder).parent.name))
    return shutil.which("initdb", path=os.pathsep.join([os.environ.get("PATH", ""), *reversed(versions)]))


def _is_still(pid: int) -> bool:
    """Return True if the process is stopped or has ended.

    A child that ended stays a zombie while the postmaster is stopped.
    """
    return stands_still(pid) or not is_alive(pid)


class PostgreSQL:
    """PostgreSQL server, as a context manager that leaves no files or processes; requires :func:`initdb`.

    ``settings``: of the server, besides those for tests. ``tls``: certificate for connections over TLS.
    """

    def __init__(self, tls: Keys | None = None, **settings: str) -> None:
        program = initdb()
        assert program is not None, NOT_INSTALLED
        self._programs = Path(program).resolve().parent
        self._given, self._tls = {**_SETTINGS, **settings}, tls
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self._data, self._log = self._folder / "data", self._folder / "server.log"
        self._process: Process | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """URL in SQLAlchemy's form."""
        return f"postgresql+psycopg2://{_USER}@127.0.0.1:{self.port}/postgres"

    def __enter__(self) -> PostgreSQL:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is not None and self._process.exit_code is None:
            # Its own processes are in sessions of their own. It ends them, and releases shared resources.
            self._process.signal(signal.SIGQUIT, [self._process.pid])
            self._process.wait(60)
        shutil.rmtree(self._folder)

    def _start(self) -> None:
        owner = give_to_unprivileged(self._folder)
        options = ["--username", _USER, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync"]
        made = subprocess.run(
            [*unprivileged_command(), str(self._programs / "initdb"), "--pgdata", str(self._data), *options],
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stdout + made.stderr
        if self._tls is not None:
            here = self._tls.copied(self._folder, owner)
            self._given |= {"ssl": "on", "ssl_cert_file": str(here.certificate), "ssl_key_file": str(here.key)}
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.launch()

    def launch(self) -> None:
        """Start the server, also after :meth:`crash`."""
        settings = [f"--{name}={value}" for name, value in self._given.items()]
        command = [str(self._programs / "postgres"), "-D", str(self._data), f"--port={self.port}", *settings]
        self._process = Process([*unprivileged_command(), *command], self._log, cwd=self._folder)
        wait_until(self._is_ready, lambda: f"PostgreSQL\n{self._tail()}", seconds=120)

    def said(self) -> str:
        """Return the whole log."""
        return "" if self._process is None else self._process.text()

    def crash(self) -> None:
        """Kill all processes of the server at once with ``kill -9``."""
        assert self._process is not None
        children = self._signal(signal.SIGKILL)
        self._process.wait(60)
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), lambda: self._tail())

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all processes of the server, while its kernel still takes connections and acknowledges data."""
        assert self._process is not None
        postmaster = self._process.pid
        try:
            os.kill(postmaster, signal.SIGSTOP)
            wait_until(lambda: stands_still(postmaster), "the postmaster to stand still")  # it now starts no process
            children = self._signal(signal.SIGSTOP)
            # a child may still be carrying out a statement
            wait_until(lambda: all(map(_is_still, children)), "the server to stand still")
            yield
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> list[int]:
        """Send the signal to all processes of the server and return its children."""
        assert self._process is not None
        text = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        children = [int(pid) for pid in text.split()]
        for pid in (self._process.pid, *children):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return children

    def _is_ready(self) -> bool:
        """Return True if the last line of the server's pid file is "ready", as ``pg_ctl --wait`` checks."""
        assert self._process is not None
        assert self._process.exit_code is None, self._tail()
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        # a killed server does not delete its file
        return bool(lines) and lines[0].strip() == str(self._process.pid) and lines[-1].strip() == "ready"

    def _tail(self) -> str:
        return "" if self._process is None else self._process.tail()
