"""A whole Airflow on this machine: scheduler, triggerer, Dag processor, API server, SQLite."""

from __future__ import annotations

import configparser
import importlib.metadata
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.processes import ROOT, Process, is_alive, send
from tests.support.waiting import wait_until

USER = "admin"


class Airflow:
    """Use as a context manager: runs when entered, and nothing of it is left afterwards. ``env``: what tasks see."""

    def __init__(self, home: Path, env: dict[str, str]) -> None:
        self.home, self.dags = home, home / "dags"
        self.dags.mkdir(parents=True)
        api, workers, triggers = _free_ports(3)
        self.url = f"http://127.0.0.1:{api}"
        passwords = home / "passwords.json"
        passwords.write_text(json.dumps({USER: USER}))
        settings = {
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
        }
        self.env = {
            "AIRFLOW_HOME": str(home),
            # ``airflow standalone`` starts its parts by the name "airflow"
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *_announced(home)]),
            **{f"AIRFLOW__{name}": value for name, value in settings.items()},
            **env,
        }
        self._token = ""
        self._process: Process | None = None

    def __enter__(self) -> Airflow:
        command = [sys.executable, "-m", "airflow"]
        migrated = subprocess.run(
            [*command, "db", "migrate"], env={**os.environ, **self.env}, capture_output=True, text=True, check=False
        )
        assert migrated.returncode == 0, migrated.stdout[-3000:] + migrated.stderr[-3000:]
        self._process = Process([*command, "standalone"], self.home / "standalone.log", env=self.env)
        try:
            wait_until(self._healthy, lambda: f"a healthy Airflow\n{self.tail()}", seconds=300, every=1)
            self._token = self.post("/auth/token", {"username": USER, "password": USER})["access_token"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            self._process.end()
        wait_until(lambda: not self._kill_the_rest(), "the end of everything Airflow started", seconds=60)

    def _kill_the_rest(self) -> list[int]:
        """A process of it that went to a session of its own is known by its environment."""
        left = [pid for pid in self.processes() if is_alive(pid)]
        for pid in left:
            send(pid, signal.SIGKILL)
        return left

    def processes(self) -> list[int]:
        mark = f"AIRFLOW_HOME={self.home}".encode()
        return [
            int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and mark in _environ(entry)
        ]

    def _healthy(self) -> bool:
        assert self._process is not None
        assert self._process.exit_code is None, self.tail()
        try:
            health = self.get("/api/v2/monitor/health")
        except OSError:
            return False
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all(health[part]["status"] == "healthy" for part in parts)

    def tail(self) -> str:
        return "" if self._process is None else self._process.tail()

    # ---- REST

    def get(self, path: str) -> Any:
        return self._call("GET", path, None)

    def post(self, path: str, body: Any) -> Any:
        return self._call("POST", path, body)

    def patch(self, path: str, body: Any) -> Any:
        return self._call("PATCH", path, body)

    def _call(self, method: str, path: str, body: Any) -> Any:
        """Raises OSError for a server that is not there, AssertionError with the answer for a refusal."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()[:2000]}") from None

    def start_dag(self, dag_id: str) -> str:
        """Wait for the Dag, unpause it, trigger it; returns the run's id."""
        wait_until(lambda: self._dag_is_there(dag_id), lambda: f"Dag {dag_id}\n{self._import_errors()}", every=1)
        self.patch(f"/api/v2/dags/{dag_id}", {"is_paused": False})
        run: str = self.post(f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None})["dag_run_id"]
        return run

    def _dag_is_there(self, dag_id: str) -> bool:
        return dag_id in [dag["dag_id"] for dag in self.get("/api/v2/dags?limit=100")["dags"]]

    def _import_errors(self) -> str:
        return json.dumps(self.get("/api/v2/importErrors"), indent=1)

    def task(self, dag_id: str, run: str, task: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/api/v2/dags/{dag_id}/dagRuns/{run}/taskInstances/{task}")
        return found

    def task_log(self, dag_id: str, task: str) -> str:
        """The logs of all tries."""
        files = sorted((self.home / "logs").glob(f"dag_id={dag_id}/**/task_id={task}/**/*.log"))
        return "\n".join(f"--- {file.name}\n{file.read_text(errors='replace')}" for file in files)


def _announced(home: Path) -> list[str]:
    """Entry points that make the working tree a provider, unless it is installed."""
    known = importlib.metadata.entry_points(group="apache_airflow_provider")
    if any(point.value.startswith("airflow_provider_ckpt.") for point in known):
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
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _environ(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""
