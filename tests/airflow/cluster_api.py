"""Fake REST API of a cluster on a real socket: YARN's ResourceManager, or Kubernetes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

NOT_FOUND = {
    "RemoteException": {
        "exception": "NotFoundException",
        "message": "java.lang.Exception: app with id: application_1700000000000_0001 not found",
        "javaClassName": "org.apache.hadoop.yarn.webapp.NotFoundException",
    }
}
"""Answer of Hadoop 3."""
YARN_ID = "application_1700000000000_0001"
POD_ID = "spark-0a1b2c3d4e5f"


class ClusterApi:
    """Server with one ``answer`` for every path, with a status."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.headers: list[Mapping[str, str]] = []
        self._answer: tuple[int, bytes] = (500, b"")
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                api.asked.append(self.path)
                api.headers.append(dict(self.headers))
                status, body = api._answer
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, body: Any, status: int = 200) -> None:
        self._answer = (status, body if isinstance(body, bytes) else json.dumps(body).encode())

    def query(self, name: str) -> str:
        """Return a query parameter of the last request."""
        return parse_qs(urlsplit(self.asked[-1]).query)[name][0]

    @contextmanager
    def serving(self) -> Iterator[ClusterApi]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.stop()
            thread.join()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def app(state: str, final: str = "UNDEFINED", diagnostics: str = "", number: str = YARN_ID) -> dict[str, Any]:
    """Return an application in the ResourceManager's form, shortened."""
    return {
        "id": number,
        "user": "airflow",
        "name": "orders",
        "queue": "default",
        "state": state,
        "finalStatus": final,
        "applicationType": "SPARK",
        "applicationTags": "ckpt-1",
        "diagnostics": diagnostics,
    }


def pod(phase: str, *, ended: Mapping[str, Any] | None = None, name: str = "orders-driver") -> dict[str, Any]:
    """Return a driver's pod in Kubernetes' form, shortened."""
    state = {"terminated": dict(ended)} if ended else {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    driver = {"name": "spark-kubernetes-driver", "ready": ended is None, "state": state}
    sidecar = {"name": "istio-proxy", "ready": True, "state": {"running": {}}}
    return {
        "metadata": {"name": name, "labels": {"spark-app-selector": POD_ID, "spark-role": "driver"}},
        "status": {"phase": phase, "containerStatuses": [sidecar, driver]},
    }


def pods(*items: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(items)}


class PlainCoreV1Api:
    """Stand-in for the only call of Kubernetes' client in use.

    test_kubernetes_drivers.py also tests the real client.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def list_namespaced_pod(self, namespace: str, **arguments: Any) -> Any:
        import urllib3

        assert arguments["_preload_content"] is False
        answer = urllib3.request(
            "GET",
            f"{self._url}/api/v1/namespaces/{namespace}/pods",
            fields={"labelSelector": arguments["label_selector"]},
            timeout=urllib3.Timeout(*arguments["_request_timeout"]),
            retries=False,
        )
        if answer.status != 200:
            raise ApiError(answer.status)
        return answer


class ApiError(Exception):
    """Error with the status that Kubernetes' client raises."""

    def __init__(self, status: int) -> None:
        super().__init__(f"({status})")
        self.status = status
