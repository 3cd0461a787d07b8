"""A client for the part of Airflow's REST API (v2) that a gate needs. It does not import Airflow."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import quote, urlsplit

from airflow_provider_ckpt.connections.connection import Connection
from airflow_provider_ckpt.connections.errors import BadConnectionError
from airflow_provider_ckpt.connections.plain_text import is_on_this_machine, warn_once

ANSWER_WITHIN = 10.0
"""Timeout of a request, in seconds. A run cannot end while a gate waits for the answer."""
_UNAUTHORIZED, _NOT_FOUND = 401, 404


class ApiFailedError(Exception):
    """The server refused the request or did not answer. The error contains no secret."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A handler that follows no redirect, because the token is only for the named server."""

    def redirect_request(
        self, request: urllib.request.Request, file: IO[bytes], code: int, message: str, headers: Any, url: str
    ) -> None:
        return None


class AirflowApi:
    """A client that logs in with the connection's login and password (``POST /auth/token``), or uses its ``token``.

    The ``token`` is in the connection's extra. Not thread-safe.

    Raises BadConnectionError if the connection has no address.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection, self._url = connection, _address(connection)
        _warn_of_plain_text(connection, self._url)
        self._token: str | None = connection.extra.get("token")
        self._has_fixed_token = self._token is not None
        self._opener = urllib.request.build_opener(_NoRedirect())

    def variable(self, key: str) -> str | None:
        """Return the text of a Variable; None if the Variable does not exist. Raises ApiFailedError."""
        path = f"/api/v2/variables/{quote(key, safe='')}"
        code, answer = self._request_authorized(path)
        # a server also answers 404 for an unknown path, for example if the address lacks Airflow's own path
        if code == _NOT_FOUND and "Variable" in str(answer.get("detail")):
            return None
        if code >= 300 or not isinstance(answer.get("value"), str):
            raise ApiFailedError(self._failure_text(path, code, answer))
        return str(answer["value"])

    def _request_authorized(self, path: str) -> tuple[int, Mapping[str, Any]]:
        is_new = self._token is None
        if self._token is None:
            self._token = self._log_in()
        code, answer = self._request(path, token=self._token)
        if code == _UNAUTHORIZED and not self._has_fixed_token:
            self._token = None  # the token has expired, or the address now belongs to another server
            if not is_new:
                return self._request_authorized(path)
        return code, answer

    def _log_in(self) -> str:
        credentials = {"username": self._connection.login or "", "password": self._connection.password or ""}
        code, answer = self._request("/auth/token", body=credentials)
        token = answer.get("access_token")
        if not isinstance(token, str):
            raise ApiFailedError(self._failure_text("/auth/token", code, answer))
        return token

    def _request(
        self, path: str, *, token: str | None = None, body: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, Any]]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers)
        try:
            with self._open(request) as answer:
                return answer.status, _fields(answer.read())
        except http.client.HTTPException as error:  # another protocol's server, or a body that was cut
            problem = f"did not answer as HTTP: {type(error).__name__} {error}"
        except (OSError, ValueError) as error:
            problem = f"did not answer: {getattr(error, 'reason', error)}"
        raise ApiFailedError(f"{self._url} {self._connection.redact(problem)}")

    def _open(self, request: urllib.request.Request) -> Any:
        try:
            return self._opener.open(request, timeout=ANSWER_WITHIN)
        except urllib.error.HTTPError as error:
            return error

    def _failure_text(self, path: str, code: int, answer: Mapping[str, Any]) -> str:
        detail = self._connection.redact(str(answer.get("detail", ""))[:200])
        return f"{self._url}{path} answered {code} {detail}".rstrip()


def _warn_of_plain_text(connection: Connection, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_on_this_machine(parts.hostname):
        warn_once(
            f"connection {connection.conn_id!r}: its login, password or token go to {url} without TLS, so everybody on "
            "the way can read them. Give an https:// address as its host"
        )


def _fields(data: bytes) -> Mapping[str, Any]:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _address(connection: Connection) -> str:
    """Return the URL of the API server: ``host`` if it is a URL, else ``schema`` (http or https), host and port."""
    host = connection.host or ""
    if "://" not in host:
        host = f"{connection.schema or 'http'}://{host}"
    parts = urlsplit(host)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        problem = "its host is no address of an API server, like https://airflow.example.org:8080"
        raise BadConnectionError(conn_id=connection.conn_id, problem=problem)
    port = f":{connection.port}" if connection.port and parts.port is None else ""
    return f"{parts.scheme}://{parts.netloc}{port}{parts.path.rstrip('/')}"
