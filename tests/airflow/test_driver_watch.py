"""Verdict of a deferred task about its driver, with a real journal and a fake cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider_ckpt.hooks.application import ApplicationReport, ApplicationState, Submission
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.journal.errors import UnknownEventError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.storage.errors import StorageUnreachableError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers.driver_watch import DriverWatch
from tests.airflow.driver_journal import complete, end, start_driver

RUNNING, ENDED, GONE, UNKNOWN = ApplicationState
SUBMITTED = Submission("yarn", "ckpt-1", "t1", 0, application_id="application_1_1", is_submitted=True, is_seen=True)


@dataclass
class PlayedStatus:
    """Cluster status with scripted states, of which the last repeats. ``meanwhile`` runs before each answer."""

    states: Sequence[ApplicationState]
    meanwhile: Callable[[], object] = lambda: None
    asked: list[Submission] = field(default_factory=list)

    def report(self, submission: Submission) -> ApplicationReport:
        self.meanwhile()
        state = self.states[min(len(self.asked), len(self.states) - 1)]
        self.asked.append(submission)
        return ApplicationReport(state, f"It is {state}", "application_1_1" if state in (RUNNING, ENDED) else None)


@pytest.fixture
def writer(journal: Callable[[str], Journal]) -> Journal:
    return journal("orders")


@pytest.fixture
def watch(root: Storage) -> Callable[..., DriverWatch]:
    def build(*states: ApplicationState, submission: Submission = SUBMITTED, **arguments: Any) -> DriverWatch:
        status = arguments.pop("status", None) or PlayedStatus(states or (UNKNOWN,))
        return DriverWatch(CheckpointHook(None, root=root.uri), "orders", submission, status, **arguments)

    return build


def requests(root: Storage) -> list[dict[str, Any]]:
    return [json.loads(root.read(f"orders/requests/{name}")) for name in root.list("orders/requests")]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [("FINISHED", "succeeded"), ("STOPPED", "succeeded"), ("FAILED", "failed"), ("RESTARTING", "retry")],
)
@pytest.mark.parametrize("cluster", [UNKNOWN, ENDED, GONE])
def test_the_outcome_follows_the_status_in_the_journal(
    watch: Any, writer: Journal, status: str, outcome: str, cluster: ApplicationState
) -> None:
    complete(start_driver(writer), 1, 2)
    end(writer, status, "no such column: shop")
    verdict = watch(cluster).poll(asks_cluster=True)
    assert verdict.outcome == outcome
    assert verdict.result == {
        "job_id": "orders",
        "status": status,
        "epoch": 1,
        "checkpoint": 2,
        "released": 2,
        "finished_operators": [],
        "late_rows": 0,
        "changed_files": 0,
        "unfit_rows": 0,
        "malformed_rows": 0,
    }
    assert ("no such column: shop" in verdict.message) == (outcome in ("failed", "retry"))


def test_an_end_before_the_driver_started_is_ignored(watch: Any, writer: Journal) -> None:
    """Yesterday's Dag run stopped the job, possibly in an attempt of the same name."""
    end(start_driver(writer), "STOPPED")
    later = Submission("yarn", "ckpt-2", "t1", 1, application_id="application_1_2", is_submitted=True, is_seen=True)
    assert watch(RUNNING, submission=later).poll(asks_cluster=True).outcome == "wait"
    verdict = watch(ENDED, submission=later).poll(asks_cluster=True)
    assert verdict.outcome == "retry"
    assert "no driver took the job" in verdict.message


@pytest.mark.parametrize(
    ("cluster", "outcome"), [(RUNNING, "wait"), (UNKNOWN, "wait"), (ENDED, "retry"), (GONE, "retry")]
)
def test_the_cluster_decides_about_a_driver_without_a_status(
    watch: Any, writer: Journal, cluster: ApplicationState, outcome: str
) -> None:
    start_driver(writer)
    verdict = watch(cluster).poll(asks_cluster=True)
    assert verdict.outcome == outcome
    assert f"It is {cluster}" in verdict.message


def test_a_driver_the_cluster_never_showed_is_not_taken_for_gone(watch: Any) -> None:
    unseen = Submission("yarn", "ckpt-1", "t1", 0, application_id="application_1_1", is_submitted=True)
    verdict = watch(GONE, submission=unseen).poll(asks_cluster=True)
    assert verdict.outcome == "wait"
    assert "does this ask the cluster that the driver was submitted to?" in verdict.message


def test_a_driver_that_the_cluster_showed_before_is_gone(watch: Any) -> None:
    unseen = Submission("yarn", "ckpt-1", "t1", 0, is_submitted=True)
    watching = watch(RUNNING, GONE, submission=unseen)
    assert [watching.poll(asks_cluster=True).outcome for _ in range(2)] == ["wait", "retry"]
    assert watching.submission.application_id == "application_1_1"


def test_a_driver_that_was_never_submitted_is_retried(watch: Any) -> None:
    """The worker was lost before spark-submit had submitted the driver."""
    assert watch(GONE, submission=Submission("yarn", "ckpt-1", "t1", 0)).poll(asks_cluster=True).outcome == "retry"


def test_an_end_journaled_during_the_cluster_poll_counts(watch: Any, writer: Journal) -> None:
    start_driver(writer)
    status = PlayedStatus([ENDED], meanwhile=lambda: end(writer, "FINISHED"))
    assert watch(status=status).poll(asks_cluster=True).outcome == "succeeded"


def test_the_cluster_is_polled_only_while_the_journal_does_not_grow(watch: Any, writer: Journal) -> None:
    status = PlayedStatus([RUNNING])
    watching = watch(status=status, every=3)
    start_driver(writer)
    for number in range(1, 6):
        complete(writer, number)
        watching.poll()
    assert status.asked == []
    for _ in range(6):
        watching.poll()
    assert len(status.asked) == 2


def test_a_failed_run_is_retried_only_after_its_driver_has_ended(watch: Any, writer: Journal) -> None:
    end(start_driver(writer), "RESTARTING", "executor lost")
    watching = watch(RUNNING, ENDED)
    assert [watching.poll().outcome for _ in range(2)] == ["wait", "retry"]


@pytest.mark.parametrize(("cluster", "outcome"), [(RUNNING, "wait"), (UNKNOWN, "wait"), (ENDED, "failed")])
def test_a_job_taken_over_by_another_driver_fails_permanently(
    watch: Any, writer: Journal, journal: Callable[[str], Journal], cluster: ApplicationState, outcome: str
) -> None:
    start_driver(writer)
    start_driver(journal("orders"), "of another Dag")
    verdict = watch(cluster).poll()
    assert verdict.outcome == outcome
    if outcome == "failed":
        assert "another driver has taken it over (epoch 2, attempt of another Dag)" in verdict.message


@pytest.mark.parametrize(
    ("status", "outcome"), [("FINISHED", "succeeded"), ("RESTARTING", "retry"), ("STOPPED", "failed")]
)
def test_the_outcome_follows_the_status_that_another_driver_left(
    watch: Any, writer: Journal, journal: Callable[[str], Journal], status: str, outcome: str
) -> None:
    start_driver(writer)
    end(start_driver(journal("orders"), "another"), status)
    assert watch(ENDED).poll().outcome == outcome


def test_a_stop_by_the_killed_task_is_not_a_success(watch: Any, writer: Journal, root: Storage) -> None:
    start_driver(writer)
    watching = watch(RUNNING)
    assert watching.ask_to_leave(watching.state())
    end(writer, "STOPPED")
    assert watching.poll().outcome == "left"
    (request,) = requests(root)
    assert (request["kind"], request["epoch"], request["exit_if_it_fails"]) == ("stop", 1, True)


def test_a_stop_requested_by_a_user_is_a_success(watch: Any, writer: Journal, root: Storage) -> None:
    start_driver(writer)
    CheckpointHook(None, root=root.uri).stop("orders")
    end(writer, "STOPPED")
    assert watch(RUNNING).poll().outcome == "succeeded"


def test_a_driver_without_the_job_gets_no_request_to_leave(watch: Any, writer: Journal) -> None:
    watching = watch()
    assert not watching.ask_to_leave(watching.state())
    start_driver(writer, "of another Dag")
    assert not watching.ask_to_leave(watching.state())
    start_driver(writer, "t1")
    end(writer, "STOPPED")
    assert not watching.ask_to_leave(watching.state())


@pytest.mark.parametrize("status", ["FINISHED", "STOPPED", "FAILED", "RESTARTING"])
def test_a_leaving_driver_gets_one_request_and_any_end_counts(
    watch: Any, writer: Journal, root: Storage, status: str
) -> None:
    watching = watch(UNKNOWN, leaving=True)
    assert watching.poll().outcome == "wait"
    assert requests(root) == []
    start_driver(writer)
    assert [watching.poll().outcome for _ in range(3)] == ["wait"] * 3
    assert len(requests(root)) == 1
    end(writer, status)
    assert watching.poll().outcome == "left"


def test_a_driver_that_died_has_left(watch: Any, writer: Journal) -> None:
    start_driver(writer)
    assert watch(ENDED, leaving=True).poll(asks_cluster=True).outcome == "left"


def test_an_unreachable_storage_is_polled_again_but_an_unknown_format_raises(
    watch: Any, writer: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_driver(writer)
    watching = watch(ENDED)
    errors: list[Exception] = [StorageUnreachableError(uri="s3://x", reason="no route")]

    def fail() -> Any:
        raise errors[0]

    monkeypatch.setattr(watching, "state", fail)
    assert watching.poll(asks_cluster=True).outcome == "wait"
    errors[0] = UnknownEventError(where="the journal", what="x", written_by="9.0", release="0.1")
    with pytest.raises(UnknownEventError):
        watching.poll()
