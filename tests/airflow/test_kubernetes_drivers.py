"""Kubernetes' documented answers, written by hand because no cluster was available."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_ckpt.hooks.application import ApplicationState, Submission
from airflow_provider_ckpt.hooks.kubernetes_drivers import KubernetesDrivers
from tests.airflow.cluster_api import POD_ID, ClusterApi, PlainCoreV1Api, pod, pods

KNOWN = Submission("kubernetes", "ckpt-1", "t1", 0, namespace="jobs", application_id=POD_ID)
TAGGED = Submission("kubernetes", "ckpt-1", "t1", 0, namespace="jobs")
KILLED = {"exitCode": 137, "reason": "OOMKilled"}


@pytest.fixture
def api() -> Iterator[ClusterApi]:
    with ClusterApi().serving() as serving:
        yield serving


def client_of_kubernetes(url: str) -> Any:
    client = pytest.importorskip("kubernetes.client")
    settings = client.Configuration(host=url)
    settings.retries = False
    return client.CoreV1Api(client.ApiClient(settings))


@pytest.fixture(params=[PlainCoreV1Api, client_of_kubernetes], ids=["plain", "kubernetes"])
def drivers(request: pytest.FixtureRequest, api: ClusterApi) -> KubernetesDrivers:
    made = request.param(api.url)
    return KubernetesDrivers(lambda: made)


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_pending_or_running_pod_is_running(api: ClusterApi, drivers: KubernetesDrivers, phase: str) -> None:
    api.answer(pods(pod(phase)))
    report = drivers.report(KNOWN)
    assert (report.state, report.application_id) == (ApplicationState.RUNNING, POD_ID)
    assert api.asked[0].startswith("/api/v1/namespaces/jobs/pods?")
    assert api.query("labelSelector") == f"spark-app-selector={POD_ID},spark-role=driver"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_ended_pod_reports_its_exit_code(api: ClusterApi, drivers: KubernetesDrivers, phase: str) -> None:
    api.answer(pods(pod(phase, ended=KILLED)))
    report = drivers.report(KNOWN)
    assert report.state is ApplicationState.ENDED
    assert report.message == f"Driver pod orders-driver is {phase}, exit code 137 (OOMKilled)"


def test_an_ended_driver_with_a_running_sidecar_has_ended(api: ClusterApi, drivers: KubernetesDrivers) -> None:
    api.answer(pods(pod("Running", ended=KILLED)))
    assert drivers.report(KNOWN).state is ApplicationState.ENDED


def test_a_live_pod_counts_more_than_an_ended_one(api: ClusterApi, drivers: KubernetesDrivers) -> None:
    api.answer(pods(pod("Failed", ended=KILLED), pod("Running", name="second")))
    assert drivers.report(KNOWN).state is ApplicationState.RUNNING


def test_a_missing_pod_is_gone(api: ClusterApi, drivers: KubernetesDrivers) -> None:
    api.answer(pods())
    assert drivers.report(KNOWN).state is ApplicationState.GONE


def test_a_submission_without_an_id_is_found_by_its_tag(api: ClusterApi, drivers: KubernetesDrivers) -> None:
    api.answer(pods(pod("Running")))
    assert drivers.report(TAGGED).application_id == POD_ID
    assert api.query("labelSelector") == "ckpt-submission=ckpt-1"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"kind": "Status", "reason": "Forbidden", "code": 403}, 403),
        ({"kind": "Status", "reason": "NotFound", "code": 404}, 404),
        (b"", 500),
        (b"<html>", 200),
        (b"[" * 100_000, 200),
        (b'{"items": [{"status": {"phase": 1e999}}]}', 200),
        ({"items": 7}, 200),
        ({"items": ["driver"]}, 200),
        (pods({"metadata": ["x"]}), 200),
        ({"kind": "Status"}, 200),
        (pods(pod("Unknown")), 200),
        (pods({"metadata": {"name": "x"}}), 200),
    ],
)
def test_an_invalid_answer_is_not_taken_for_an_end(
    api: ClusterApi, drivers: KubernetesDrivers, body: Any, status: int
) -> None:
    api.answer(body, status)
    assert drivers.report(KNOWN).state is ApplicationState.UNKNOWN


def test_a_large_answer_is_not_parsed(api: ClusterApi, drivers: KubernetesDrivers) -> None:
    ended = json.dumps(pods(pod("Failed"))).encode()
    api.answer(ended + b" " * (16 << 20))
    report = drivers.report(KNOWN)
    assert report.state is ApplicationState.UNKNOWN
    assert "gives an answer that cannot be read (it has more than 16777216 bytes) when asked" in report.message


def test_a_silent_api_server_makes_the_state_unknown(api: ClusterApi, drivers: KubernetesDrivers) -> None:
    api.stop()
    assert drivers.report(KNOWN).state is ApplicationState.UNKNOWN


def test_credentials_are_fetched_again_after_a_failure(api: ClusterApi) -> None:
    connected: list[int] = []

    def connect() -> Any:
        connected.append(1)
        return PlainCoreV1Api(api.url)

    drivers = KubernetesDrivers(connect)
    api.answer({}, 401)
    drivers.report(KNOWN)
    api.answer(pods(pod("Running")))
    assert [drivers.report(KNOWN).state, drivers.report(KNOWN).state] == [ApplicationState.RUNNING] * 2
    assert len(connected) == 2


def test_the_state_is_unknown_without_the_kubernetes_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "airflow.providers.cncf", None)
    monkeypatch.setitem(__import__("sys").modules, "airflow.providers.cncf.kubernetes", None)
    assert KubernetesDrivers().report(KNOWN).state is ApplicationState.UNKNOWN
