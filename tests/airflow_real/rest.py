"""Client of Airflow's REST API, for tests."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from tests.support.waiting import wait_until


class Rest:
    """REST client. ``url``: of the API server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._token = ""

    def log_in(self, user: str, password: str) -> None:
        self._token = self.post("/auth/token", {"username": user, "password": password})["access_token"]

    def get(self, path: str) -> Any:
        return self._call("GET", path, None)

    def post(self, path: str, body: Any) -> Any:
        return self._call("POST", path, body)

    def patch(self, path: str, body: Any) -> Any:
        return self._call("PATCH", path, body)

    def _call(self, method: str, path: str, body: Any) -> Any:
        """Send a request. Raises OSError if there is no server, and AssertionError with the answer if it refuses."""
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

    def is_healthy(self) -> bool:
        try:
            health = self.get("/api/v2/monitor/health")
        except OSError:
            return False
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all(health[part]["status"] == "healthy" for part in parts)

    def start_dag(self, dag_id: str) -> str:
        """Wait for the Dag, unpause it and trigger it. Return the run's id."""
        wait_until(lambda: self._dag_is_there(dag_id), lambda: f"Dag {dag_id}\n{self._import_errors()}", every=1)
        self.patch(f"/api/v2/dags/{dag_id}", {"is_paused": False})
        run: str = self.post(f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None})["dag_run_id"]
        return run

    def _dag_is_there(self, dag_id: str) -> bool:
        return dag_id in [dag["dag_id"] for dag in self.get("/api/v2/dags?limit=100")["dags"]]

    def _import_errors(self) -> str:
        return json.dumps(self.get("/api/v2/importErrors"), indent=1)

    def task(self, dag_id: str, run: str, task: str) -> dict[str, Any]:
        task_instance: dict[str, Any] = self.get(f"/api/v2/dags/{dag_id}/dagRuns/{run}/taskInstances/{task}")
        return task_instance

    def tasks(self, dag_id: str, run: str) -> list[dict[str, Any]]:
        """Return the task instances of a run, with each instance of a mapped task."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run}/taskInstances?limit=100"
        task_instances: list[dict[str, Any]] = self.get(path)["task_instances"]
        return task_instances

    def alive(self, job_type: str) -> dict[int, str]:
        """Return Airflow's own jobs of a type (``TriggererJob``) that have a fresh heartbeat: id → host."""
        jobs = self.get(f"/api/v2/jobs?job_type={job_type}&is_alive=true&limit=100")["jobs"]
        return {job["id"]: job["hostname"] for job in jobs}
