"""Reports of Kubernetes about a driver, from the driver's pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_ckpt.hooks.application import ApplicationReport, ApplicationState, Submission
from airflow_provider_ckpt.storage.errors import MalformedDocumentError
from airflow_provider_ckpt.storage.refusal import UNREADABLE
from airflow_provider_ckpt.storage.strict_json import parse_json

LABEL = "ckpt-submission"
"""Label of the driver's pod. Its value is the submission's tag."""
_CONTAINER = "spark-kubernetes-driver"
_TIMEOUT = (5.0, 30.0)
"""(seconds to connect, seconds to read) of a request to Kubernetes."""
_MOST_BYTES = 16 << 20
"""Maximum size of an answer in bytes. The description of one pod has some ten thousand bytes."""
_STATES = {
    "Pending": ApplicationState.RUNNING,
    "Running": ApplicationState.RUNNING,
    "Succeeded": ApplicationState.ENDED,
    "Failed": ApplicationState.ENDED,
}
"""Phase of the pod -> state. ``Unknown`` is missing, because the node does not answer in that phase."""


class KubernetesDrivers:
    """Access to the drivers' pods.

    ``connect`` returns a ``CoreV1Api``. The default needs the provider cncf.kubernetes, and connects like the
    Spark provider to the cluster of ``[kubernetes_executor]`` in Airflow's configuration.
    """

    def __init__(self, connect: Callable[[], Any] | None = None) -> None:
        self._connect = connect or _configured
        self._api: Any = None

    def report(self, submission: Submission) -> ApplicationReport:
        try:
            reports = [_report(pod) for pod in self._pods(submission)]
        except Exception as error:  # from the network, credentials or bad JSON; it proves nothing about the pod
            self._api = None  # because its token may have expired
            status = getattr(error, "status", None)
            problem = f"answers {status}" if status else _problem(error)
            message = f"Kubernetes {problem} when asked for the driver of application {submission.shown}"
            return ApplicationReport(ApplicationState.UNKNOWN, message)
        if not reports:
            where = f"in namespace {submission.namespace}"
            message = f"Kubernetes has no driver of application {submission.shown} {where}"
            return ApplicationReport(ApplicationState.GONE, message)
        return next((report for report in reports if report.state is not ApplicationState.ENDED), reports[0])

    def _pods(self, submission: Submission) -> list[dict[str, Any]]:
        if self._api is None:
            self._api = self._connect()
        by_id = f"spark-app-selector={submission.application_id},spark-role=driver"
        answer = self._api.list_namespaced_pod(
            submission.namespace,
            label_selector=by_id if submission.application_id else f"{LABEL}={submission.tag}",
            _preload_content=False,
            _request_timeout=_TIMEOUT,
        )
        pods: list[dict[str, Any]] = parse_json(answer.data, uri="", what="", most_bytes=_MOST_BYTES)["items"]
        return pods


def _configured() -> Any:
    from airflow.providers.cncf.kubernetes import kube_client

    return kube_client.get_kube_client()


def _problem(error: Exception) -> str:
    if isinstance(error, MalformedDocumentError):
        return f"gives an answer that cannot be read ({error.data['reason']})"
    if isinstance(error, UNREADABLE):
        return f"gives an answer of another form ({type(error).__name__})"
    return f"does not answer ({type(error).__name__})"


def _report(pod: Mapping[str, Any]) -> ApplicationReport:
    meta, status = pod.get("metadata") or {}, pod.get("status") or {}
    application_id = (meta.get("labels") or {}).get("spark-app-selector")
    phase, ended = status.get("phase"), _ended(status)
    # With a sidecar that stays (Istio), a pod keeps running after its driver.
    state = ApplicationState.ENDED if ended else _STATES.get(str(phase), ApplicationState.UNKNOWN)
    end = f", exit code {ended.get('exitCode')} ({ended.get('reason')})" if ended else ""
    return ApplicationReport(state, f"Driver pod {meta.get('name')} is {phase}{end}", application_id)


def _ended(status: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return Kubernetes' record of the end of the driver's container. None if the container has not ended."""
    for container in status.get("containerStatuses") or []:
        if container.get("name") == _CONTAINER:
            termination: dict[str, Any] | None = (container.get("state") or {}).get("terminated")
            return termination
    return None
