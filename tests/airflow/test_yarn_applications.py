"""Hadoop 3's documented answers, written by hand because no YARN was available."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_ckpt.hooks.application import ApplicationState, Submission
from airflow_provider_ckpt.hooks.yarn_applications import YarnApplications
from tests.airflow.cluster_api import NOT_FOUND, YARN_ID, ClusterApi, app

KNOWN = Submission("yarn", "ckpt-1", "t1", 0, application_id=YARN_ID)
TAGGED = Submission("yarn", "ckpt-1", "t1", 0)


@pytest.fixture
def rm() -> Iterator[ClusterApi]:
    with ClusterApi().serving() as api:
        yield api


@pytest.mark.parametrize("state", ["NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING"])
def test_a_waiting_or_running_application_is_running(rm: ClusterApi, state: str) -> None:
    rm.answer({"app": app(state)})
    report = YarnApplications(rm.url).report(KNOWN)
    assert (report.state, report.application_id) == (ApplicationState.RUNNING, YARN_ID)
    assert rm.asked == [f"/ws/v1/cluster/apps/{YARN_ID}"]
    assert rm.headers[0]["Accept"] == "application/json"


@pytest.mark.parametrize(
    ("state", "final"), [("FINISHED", "SUCCEEDED"), ("FINISHED", "FAILED"), ("FAILED", "FAILED"), ("KILLED", "KILLED")]
)
def test_an_ended_application_reports_its_end_on_one_line(rm: ClusterApi, state: str, final: str) -> None:
    rm.answer({"app": app(state, final, "AM Container exited\n with exitCode: 137")})
    report = YarnApplications(rm.url).report(KNOWN)
    assert report.state is ApplicationState.ENDED
    assert (
        report.message == f"YARN application {YARN_ID} ended {state}, {final}: AM Container exited with exitCode: 137"
    )


def test_an_unknown_application_is_gone(rm: ClusterApi) -> None:
    rm.answer(NOT_FOUND, 404)
    assert YarnApplications(rm.url).report(KNOWN).state is ApplicationState.GONE


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"<html>no such page</html>", 404),  # answer of a proxy
        ({"error": "not here"}, 404),
        ({"RemoteException": {"exception": "ForbiddenException"}}, 403),
        (b"", 500),
        (NOT_FOUND, 500),
        ({"apps": None}, 200),
        ({"app": None}, 200),
        ([], 200),
        ({"app": app("RESTING")}, 200),
    ],
)
def test_an_invalid_answer_is_not_taken_for_an_end(rm: ClusterApi, body: Any, status: int) -> None:
    rm.answer(body, status)
    assert YarnApplications(rm.url).report(KNOWN).state is ApplicationState.UNKNOWN


def test_a_silent_resource_manager_makes_the_state_unknown(rm: ClusterApi) -> None:
    address = rm.url.replace("//", "//me:pass-word-1@")
    rm.stop()
    report = YarnApplications(address).report(KNOWN)
    assert report.state is ApplicationState.UNKNOWN
    assert "127.0.0.1" in report.message
    assert "pass-word-1" not in report.message


def test_the_user_and_password_in_the_address_are_used(rm: ClusterApi) -> None:
    rm.answer({"app": app("RUNNING")})
    YarnApplications(rm.url.replace("//", "//me:pass-word-1@")).report(KNOWN)
    assert rm.headers[0]["Authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    ("apps", "state"),
    [
        ({"app": [app("RUNNING")]}, ApplicationState.RUNNING),
        ({"app": [app("KILLED", "KILLED"), app("ACCEPTED")]}, ApplicationState.RUNNING),
        ({"app": [app("FAILED", "FAILED")]}, ApplicationState.ENDED),
        (None, ApplicationState.GONE),
        ({}, ApplicationState.GONE),
        ({"app": []}, ApplicationState.GONE),
        ("", ApplicationState.GONE),
        ({"app": "none"}, ApplicationState.UNKNOWN),
        (["x"], ApplicationState.UNKNOWN),
    ],
)
def test_a_submission_without_an_id_is_found_by_its_tag(rm: ClusterApi, apps: Any, state: ApplicationState) -> None:
    rm.answer({"apps": apps})
    report = YarnApplications(rm.url).report(TAGGED)
    assert report.state is state
    assert rm.asked == ["/ws/v1/cluster/apps?applicationTags=ckpt-1"]
    assert report.application_id == (YARN_ID if state in (ApplicationState.RUNNING, ApplicationState.ENDED) else None)


@pytest.mark.parametrize("address", [None, "", "  "])
def test_a_connection_without_an_address_raises_a_key_error(address: str | None) -> None:
    with pytest.raises(KeyError):
        YarnApplications.of({"yarn_resourcemanager_webapp_address": address}, kerberos=False)


def test_an_address_without_a_scheme_is_http(rm: ClusterApi) -> None:
    rm.answer({"app": app("RUNNING")})
    extra = {"yarn_resourcemanager_webapp_address": rm.url.removeprefix("http://") + "/"}
    assert YarnApplications.of(extra, kerberos=False).report(KNOWN).state is ApplicationState.RUNNING
