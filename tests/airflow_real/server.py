"""Whole Airflow on this machine, started and ended by a test."""

from __future__ import annotations

import configparser
import importlib.metadata
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.airflow_real.browser import Browser
from tests.airflow_real.component import Component
from tests.airflow_real.rest import Rest
from tests.support.processes import ROOT, is_alive, send
from tests.support.waiting import wait_until

USER = "admin"


class Airflow(Rest):
    """Context of a running Airflow. Nothing of it remains afterwards.

    Unless a subclass differs, it is ``airflow standalone`` (scheduler, triggerer, Dag processor, API server) on SQLite.

    :param env: variables for the tasks.
    :param settings: ``SECTION__OPTION`` → value, in addition to the settings that all tests share.
    """

    def __init__(self, home: Path, env: Mapping[str, str], settings: Mapping[str, str] | None = None) -> None:
        api, workers, triggers = _free_ports(3)
        super().__init__(f"http://127.0.0.1:{api}")
        self.home, self.dags = home, home / "dags"
        self.dags.mkdir(parents=True)
        passwords = home / "passwords.json"
        passwords.write_text(json.dumps({USER: USER}))
        common = {
            "CORE__DAGS_FOLDER": str(self.dags),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__PARALLELISM": "4",
            "CORE__TEST_CONNECTION": "Enabled",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
            "LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
            "LOGGING__WORKER_LOG_SERVER_PORT": str(workers),
            "LOGGING__TRIGGER_LOG_SERVER_PORT": str(triggers),
            "API__HOST": "127.0.0.1",
            "API__PORT": str(api),
            "API__BASE_URL": self.url,
            "API__WORKERS": "1",
            "API_AUTH__JWT_SECRET": "for-this-test-only-and-long-enough-for-the-algorithm-0123456789abcdef",
            "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "USAGE_DATA_COLLECTION__ENABLED": "False",
            # The API server's first answer to a task takes long on a loaded machine. After four requests of 5 s, the
            # default, Airflow kills the task before it has begun.
            "WORKERS__EXECUTION_API_TIMEOUT": "120",
        }
        self.env = {
            "AIRFLOW_HOME": str(home),
            # ``airflow standalone`` starts its parts by the name "airflow"
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *_announced(home)]),
            **{f"AIRFLOW__{name}": value for name, value in {**common, **(settings or {})}.items()},
            **env,
        }
        self.components = self._made_of()

    def _made_of(self) -> list[Component]:
        return [Component("standalone", ["standalone"], self.home, self.env)]

    @property
    def triggerers(self) -> list[Component]:
        """Return the triggerers that are separate processes."""
        return []

    def __enter__(self) -> Airflow:
        command = [sys.executable, "-m", "airflow", "db", "migrate"]
        migrated = subprocess.run(command, env={**os.environ, **self.env}, capture_output=True, text=True, check=False)
        assert migrated.returncode == 0, migrated.stdout[-3000:] + migrated.stderr[-3000:]
        try:
            for component in self.components:
                component.start()
            wait_until(self._is_up, lambda: f"a healthy Airflow\n{self.tail()}", seconds=300, every=1)
            self.log_in(USER, USER)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for component in self.components:
            component.end()
        wait_until(lambda: not self._kill_the_rest(), "the end of everything Airflow started", seconds=60)

    def _is_up(self) -> bool:
        for component in self.components:
            assert not component.has_ended, component.tail()
        return self.is_healthy()

    def _kill_the_rest(self) -> list[int]:
        """Kill processes that left Airflow's session, recognized by their environment. Return their ids."""
        left = [pid for pid in self.processes() if is_alive(pid)]
        for pid in left:
            send(pid, signal.SIGKILL)
        return left

    def log_in_to(self, browser: Browser) -> None:
        browser.log_in(self.url, self._token)

    def processes(self) -> list[int]:
        mark = f"AIRFLOW_HOME={self.home}".encode()
        return [
            int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and mark in _environ(entry)
        ]

    def tail(self) -> str:
        return "\n".join(component.tail() for component in self.components)

    def task_log(self, dag_id: str, task: str) -> str:
        """Return the logs of all tries."""
        files = sorted((self.home / "logs").glob(f"dag_id={dag_id}/**/task_id={task}/**/*.log"))
        return "\n".join(f"--- {file.name}\n{file.read_text(errors='replace')}" for file in files)


def _announced(home: Path) -> list[str]:
    """Write entry points that make the working tree a provider, unless it is installed. Return their folder."""
    entry_points = importlib.metadata.entry_points(group="apache_airflow_provider")
    if any(point.value.startswith("airflow_provider_ckpt.") for point in entry_points):
        return []
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    points = setup["options.entry_points"]["apache_airflow_provider"].strip()
    folder = home / "announced" / "airflow_provider_ckpt-0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: airflow-provider-ckpt\nVersion: 0\n")
    (folder / "entry_points.txt").write_text(f"[apache_airflow_provider]\n{points}\n")
    return [str(folder.parent)]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server_socket.getsockname()[1] for server_socket in sockets]
    for server_socket in sockets:
        server_socket.close()
    return ports


def _environ(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""
