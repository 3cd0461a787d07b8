"""Reports of YARN's ResourceManager about an application, from its REST API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import requests

from airflow_provider_ckpt.hooks.application import ApplicationReport, ApplicationState, Submission

if TYPE_CHECKING:
    from requests.auth import AuthBase

ADDRESS = "yarn_resourcemanager_webapp_address"
"""Field of the Spark connection's extra, as the Spark provider names it."""
_TIMEOUT = (5.0, 30.0)
"""Seconds to connect and to read, as in the Spark provider's hook."""
_RUNNING = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")
_ENDED = ("FINISHED", "FAILED", "KILLED")
_LONGEST = 500


class YarnApplications:
    """Access to YARN's applications.

    ``address`` is the address of the ResourceManager's web server, ``http://rm:8088`` or ``rm:8088``. A user and a
    password in the address are used, and never shown.
    """

    def __init__(self, address: str, auth: AuthBase | None = None) -> None:
        self._base = (address if "://" in address else f"http://{address}").rstrip("/")
        self._auth = auth

    @classmethod
    def of(cls, extra: Mapping[str, Any], *, kerberos: bool) -> YarnApplications:
        """Return the access to the ResourceManager that the Spark connection's ``extra`` names.

        Raises KeyError if the extra has no address, and ImportError if requests-kerberos is needed and not installed.
        """
        address = str(extra.get(ADDRESS) or "").strip()
        if not address:
            raise KeyError(ADDRESS)
        return cls(address, _kerberos() if kerberos else None)

    def report(self, submission: Submission) -> ApplicationReport:
        application, by_id = submission.shown, submission.application_id
        path = f"/{quote(by_id)}" if by_id else f"?applicationTags={quote(submission.tag)}"
        try:
            status, body = self._get(f"/ws/v1/cluster/apps{path}")
        except Exception as error:  # from the network, Kerberos or bad JSON; it proves nothing about the application
            message = f"YARN at {self._host} does not report about application {application} ({type(error).__name__})"
            return ApplicationReport(ApplicationState.UNKNOWN, message)
        if status == 404 and _is_unknown_there(body):
            return self._gone(application)
        app = _application(body, is_list=by_id is None) if status == 200 else None
        if app is None:
            message = f"YARN at {self._host} answers {status} when asked for application {application}"
            return ApplicationReport(ApplicationState.UNKNOWN, message)
        return _report(app) if app else self._gone(application)

    def _get(self, path: str) -> tuple[int, Any]:
        answer = requests.get(
            self._base + path, auth=self._auth, timeout=_TIMEOUT, headers={"Accept": "application/json"}
        )
        return answer.status_code, answer.json()

    @property
    def _host(self) -> str:
        parts = urlsplit(self._base)
        return parts.netloc.rpartition("@")[2]

    def _gone(self, application: str) -> ApplicationReport:
        return ApplicationReport(ApplicationState.GONE, f"YARN at {self._host} knows no application {application}")


def _kerberos() -> AuthBase:
    from requests_kerberos import HTTPKerberosAuth  # type: ignore[import-not-found,unused-ignore]

    auth: AuthBase = HTTPKerberosAuth()
    return auth


def _is_unknown_there(body: Any) -> bool:
    """Return True if the ResourceManager reports that it has no such application. A proxy also answers 404."""
    error = body.get("RemoteException") if isinstance(body, dict) else None
    return isinstance(error, dict) and error.get("exception") == "NotFoundException"


def _application(body: Any, *, is_list: bool) -> dict[str, Any] | None:
    """Return YARN's first running application, else its first application, else {}. None for a malformed answer."""
    if not isinstance(body, dict):
        return None
    if not is_list:
        return body["app"] if isinstance(body.get("app"), dict) else None
    if "apps" not in body:
        return None
    apps = (body["apps"] or {}).get("app", []) if isinstance(body["apps"] or {}, dict) else None
    if not isinstance(apps, list) or not all(isinstance(app, dict) for app in apps):
        return None
    return next((app for app in apps if app.get("state") in _RUNNING), apps[0] if apps else {})


def _report(app: Mapping[str, Any]) -> ApplicationReport:
    state, application_id = str(app.get("state")), str(app.get("id"))
    if state in _RUNNING:
        return ApplicationReport(
            ApplicationState.RUNNING, f"YARN application {application_id} is {state}", application_id
        )
    if state not in _ENDED:
        return ApplicationReport(
            ApplicationState.UNKNOWN, f"YARN application {application_id} is {state}", application_id
        )
    diagnostics = " ".join(str(app.get("diagnostics") or "").split())[:_LONGEST]
    message = f"YARN application {application_id} ended {state}, {app.get('finalStatus')}"
    return ApplicationReport(
        ApplicationState.ENDED, f"{message}: {diagnostics}" if diagnostics else message, application_id
    )
