"""Gate of an Airflow Variable, tested against a server that answers as Airflow does.

tests/airflow_real/test_variable_gate.py tests it against the real one.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from airflow_provider_ckpt.connections.errors import BadConnectionError, ConnectionMissingError
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.gates.airflow_variable_gate import AirflowVariableGate
from airflow_provider_ckpt.gates.errors import GateUndecidedError
from airflow_provider_ckpt.job.sink_operator import PendingRelease

SECRET = "s3cr3tPW"
PENDING = PendingRelease("orders", "lake", 12, 5)


class Server:
    """Server of Airflow Variables.

    ``variables``: the existing ones. ``valid``: accepted tokens. ``asked``: requested paths, in order.
    """

    def __init__(self) -> None:
        self.variables: dict[str, Any] = {}
        self.valid: set[str] = set()
        self.asked: list[str] = []
        self.answers: list[tuple[int, str, dict[str, str]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                if server.answers:
                    return self.answer(*server.answers.pop(0))
                if self.headers.get("Authorization", "").removeprefix("Bearer ") not in server.valid:
                    return self.answer(401, '{"detail": "Not authenticated"}')
                key = self.path.rpartition("/")[2]
                if key not in server.variables:
                    return self.answer(404, json.dumps({"detail": f"The Variable with key: `{key}` was not found"}))
                return self.answer(200, json.dumps({"key": key, "value": server.variables[key]}))

            def do_POST(self) -> None:
                server.asked.append(self.path)
                given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if given != {"username": "gate", "password": SECRET}:
                    return self.answer(401, json.dumps({"detail": f"Invalid credentials {given['password']}"}))
                token = f"token-{len(server.asked)}"
                server.valid.add(token)
                return self.answer(201, json.dumps({"access_token": token}))

            def answer(self, code: int, text: str, headers: dict[str, str] | None = None) -> None:
                self.send_response(code)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *given: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"


@pytest.fixture
def airflow_api() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture
def gate(airflow_api: Server, monkeypatch: pytest.MonkeyPatch) -> AirflowVariableGate:
    connect(monkeypatch, host=airflow_api.address)
    return AirflowVariableGate("approved", "airflow_api")


def connect(monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
    fields = {"conn_type": "http", "login": "gate", "password": SECRET, **given}
    monkeypatch.setenv("AIRFLOW_CONN_AIRFLOW_API", json.dumps(fields))


@pytest.mark.parametrize(
    ("value", "is_open"), [("true", True), ("True\n", True), ("false", False), ("FALSE", False), (None, False)]
)
def test_the_variable_opens_or_closes_the_gate(
    gate: AirflowVariableGate, airflow_api: Server, value: str | None, is_open: bool
) -> None:
    if value is not None:
        airflow_api.variables["approved"] = value
    assert gate(PENDING) is is_open


@pytest.mark.parametrize("value", ["", "yes", "1", "tru"])
def test_another_value_leaves_the_gate_undecided(gate: AirflowVariableGate, airflow_api: Server, value: str) -> None:
    airflow_api.variables["approved"] = value
    with pytest.raises(GateUndecidedError, match="is neither true nor false, so nothing"):
        gate(PENDING)


def test_the_variable_is_read_each_time_with_one_login(gate: AirflowVariableGate, airflow_api: Server) -> None:
    airflow_api.variables["approved"] = "false"
    assert gate(PENDING) is False
    airflow_api.variables["approved"] = "true"
    assert gate(PENDING) is True
    assert airflow_api.asked == ["/auth/token", "/api/v2/variables/approved", "/api/v2/variables/approved"]


def test_an_expired_token_is_renewed(gate: AirflowVariableGate, airflow_api: Server) -> None:
    airflow_api.variables["approved"] = "true"
    assert gate(PENDING) is True
    airflow_api.valid.clear()
    assert gate(PENDING) is True


def test_a_token_in_the_connection_is_used(airflow_api: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, host=airflow_api.address, login=None, password=None, extra={"token": "given"})
    airflow_api.variables["approved"], airflow_api.valid = "true", {"given"}
    assert AirflowVariableGate("approved", "airflow_api")(PENDING) is True
    assert airflow_api.asked == ["/api/v2/variables/approved"]
    airflow_api.valid = set()
    with pytest.raises(GateUndecidedError, match="Nothing is released until it can be; it") as raised:
        AirflowVariableGate("approved", "airflow_api")(PENDING)
    assert "401" in str(raised.value)


def test_a_key_may_contain_the_job_and_the_sink(airflow_api: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, host="127.0.0.1", port=airflow_api.http.server_address[1])
    airflow_api.variables["approved.orders.lake"] = "true"
    assert AirflowVariableGate("approved.{job_id}.{sink}", "airflow_api")(PENDING) is True


@pytest.mark.parametrize("key", ["", " ", "{day}", "{0}", "{job_id", None])
def test_an_invalid_key_is_refused_in_the_constructor(key: Any) -> None:
    with pytest.raises(InvalidInputError, match="Give the key of a Variable; it may hold"):
        AirflowVariableGate(key, "airflow_api")


@pytest.mark.parametrize(
    "answer",
    [
        (500, '{"detail": "no database"}', {}),
        (403, '{"detail": "Forbidden"}', {}),
        (404, "<html>not Airflow at all</html>", {}),
        (404, '{"detail": "Not Found"}', {}),
        (200, "<html>a login page</html>", {}),
        (200, '{"key": "approved", "value": true}', {}),
        (200, '["true"]', {}),
    ],
)
def test_an_invalid_answer_leaves_the_gate_undecided(
    gate: AirflowVariableGate, airflow_api: Server, answer: tuple[int, str, dict[str, str]]
) -> None:
    airflow_api.variables["approved"] = "true"
    airflow_api.answers = [answer]
    with pytest.raises(GateUndecidedError, match="Nothing is released until it can be; it") as raised:
        gate(PENDING)
    assert str(answer[0]) in str(raised.value)
    assert gate(PENDING) is True


def test_a_token_is_not_sent_to_a_redirect(gate: AirflowVariableGate, airflow_api: Server) -> None:
    other = Server()
    other.variables["approved"] = "true"
    airflow_api.answers = [(302, "", {"Location": f"{other.address}/api/v2/variables/approved"})]
    with pytest.raises(GateUndecidedError, match="Nothing is released until it can be; it"):
        gate(PENDING)
    assert other.asked == []
    other.http.shutdown()
    other.http.server_close()


def test_the_error_for_a_refused_login_has_no_password(airflow_api: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, host=airflow_api.address, login="somebody else")
    with pytest.raises(GateUndecidedError, match="Nothing is released until it can be; it") as raised:
        AirflowVariableGate("approved", "airflow_api")(PENDING)
    assert "401" in str(raised.value)
    assert SECRET not in str(raised.value)


def test_an_unreachable_server_leaves_the_gate_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        unused_port = free.getsockname()[1]
    connect(monkeypatch, host="127.0.0.1", port=unused_port)
    with pytest.raises(GateUndecidedError, match="Nothing is released until it can be; it") as raised:
        AirflowVariableGate("approved", "airflow_api")(PENDING)
    assert str(unused_port) in str(raised.value)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "did not answer as HTTP: BadStatusLine"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{", "did not answer as HTTP: IncompleteRead"),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 90\r\n\r\n{", "did not answer as HTTP: IncompleteRead"),
    ],
)
def test_an_answer_that_is_no_whole_http_leaves_the_gate_undecided(
    reply: bytes, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect(monkeypatch, host="127.0.0.1", port=server.getsockname()[1], login=None, extra={"token": SECRET})

        def answer() -> None:
            with server.accept()[0] as client:
                client.recv(4096)
                client.sendall(reply)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(GateUndecidedError, match=f"Variable 'approved'.*connection 'airflow_api'.*{problem}"):
            AirflowVariableGate("approved", "airflow_api")(PENDING)


@pytest.mark.parametrize("host", ["", "ftp://airflow", "http://", "https://who:what@airflow"])
def test_a_connection_without_an_address_is_refused(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, host=host)
    with pytest.raises(BadConnectionError):
        AirflowVariableGate("approved", "airflow_api")(PENDING)


def test_a_missing_connection_of_a_gate_raises_an_error() -> None:
    with pytest.raises(ConnectionMissingError):
        AirflowVariableGate("approved", "airflow_api")(PENDING)
