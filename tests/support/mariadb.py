"""A throw-away MariaDB server on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql

from tests.support.certificates import Keys
from tests.support.processes import Process
from tests.support.unprivileged import give_to_unprivileged, unprivileged_command
from tests.support.waiting import wait_until

NOT_INSTALLED = (
    "MariaDB is not installed (mariadbd and mariadb-install-db were not found): apt-get install mariadb-server"
)
PASSWORD = "s3cr3tPW"
_USER = "airflow"
_SETTINGS = {
    "bind-address": "127.0.0.1",
    # written data is in the kernel's hands, and the kernel outlives the server
    "innodb-flush-method": "nosync",
    "innodb-buffer-pool-size": "64M",
    "innodb-log-file-size": "64M",
    "max-connections": "200",
    # stricter than users' servers, because the sink must not rely on defaults
    "sql-mode": "NO_BACKSLASH_ESCAPES,ANSI_QUOTES",
    "character-set-server": "latin1",
    "default-time-zone": "+05:30",
}


def program(name: str) -> str | None:
    """Return the path of a program. A daemon's folder may not be in PATH."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))


def is_installed() -> bool:
    return all(program(name) for name in ("mariadbd", "mariadb-install-db"))


class MariaDB:
    """MariaDB server, as a context manager that leaves no files or processes; requires :func:`is_installed`.

    ``settings``: of the server, besides those for tests. ``tls``: its certificate; without one it may make its own.
    """

    def __init__(self, tls: Keys | None = None, **settings: str) -> None:
        self._given, self._tls = {**_SETTINGS, **settings}, tls
        self._folder = Path(tempfile.mkdtemp(prefix="mariadb-"))
        self._data, self._log = self._folder / "data", self._folder / "server.log"
        self._process: Process | None = None
        self.port = 0

    def __enter__(self) -> MariaDB:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is not None and self._process.exit_code is None:
            self._process.signal(signal.SIGKILL, [self._process.pid])
            self._process.wait(60)
        shutil.rmtree(self._folder)

    def connect(self, **parameters: Any) -> Any:
        """Connect as the user of tests, which has all rights."""
        options = {"host": "127.0.0.1", "port": self.port, "user": _USER, "password": PASSWORD, "charset": "utf8mb4"}
        return pymysql.connect(**{"autocommit": True, "ssl_disabled": True, **options, **parameters})

    def _start(self) -> None:
        owner = give_to_unprivileged(self._folder)
        install = program("mariadb-install-db")
        folders = [f"--datadir={self._data}", f"--tmpdir={self._folder}"]
        options = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        assert install is not None, NOT_INSTALLED
        made = subprocess.run(
            [*unprivileged_command(), install, "--no-defaults", *folders, *options],
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stdout + made.stderr
        if self._tls is not None:
            here = self._tls.copied(self._folder, owner)
            self._given |= {"ssl-cert": str(here.certificate), "ssl-key": str(here.key)}
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.launch()
        with pymysql.connect(host="127.0.0.1", port=self.port, user="root", ssl_disabled=True) as connection:
            cursor = connection.cursor()
            cursor.execute(f"CREATE USER {_USER} IDENTIFIED BY '{PASSWORD}'")
            cursor.execute(f"GRANT ALL ON *.* TO {_USER} WITH GRANT OPTION")

    def launch(self) -> None:
        """Start the server, also after :meth:`crash`."""
        assert self._process is None or self._process.exit_code is not None, "it runs"
        settings = [f"--{name}={value}" for name, value in self._given.items()]
        place = [f"--datadir={self._data}", f"--port={self.port}", f"--socket={self._folder / 's.sock'}"]
        place.append(f"--tmpdir={self._folder}")  # in a shared folder, a starting server deletes the files of others
        command = [str(program("mariadbd")), "--no-defaults", *place, *settings]
        self._process = Process([*unprivileged_command(), *command], self._log, cwd=self._folder)
        wait_until(self._is_ready, lambda: f"MariaDB\n{self._tail()}", seconds=120)

    def crash(self) -> None:
        """Kill the server with ``kill -9``."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(60)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the server's process, while its kernel still takes connections and acknowledges data."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            wait_until(self._stands_still, "the server to stand still")  # a thread may still run a statement
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    def _stands_still(self) -> bool:
        """Return True if each of its threads is stopped."""
        assert self._process is not None
        stats = Path(f"/proc/{self._process.pid}/task").glob("*/stat")
        return all(entry.read_text().rpartition(")")[2].split()[0] == "T" for entry in stats)

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.exit_code is None, self._tail()
        return b"ready for connections" in self._log.read_bytes()

    def _tail(self) -> str:
        return "" if self._process is None else self._process.tail()
