"""Jobs that continue as another version: a trial, then a stop that is not reported as the end of the job."""

from __future__ import annotations

from airflow_provider_ckpt.coordinator.protocol.effects import Effect, EndJob, Release, TryUpgrade
from airflow_provider_ckpt.coordinator.protocol.messages import (
    UpgradeTried,
)
from airflow_provider_ckpt.journal.events import CheckpointTriggered, StatusChanged
from airflow_provider_ckpt.model.job_request import ReconfigureRequest, UpgradeRequest
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from tests.coordinator.harness import Harness, events, graph, only, vertex

MIXED = graph(vertex("v", sources="h live", bounded="h", sinks="sink"))


def request_upgrade(**options: float) -> tuple[Harness, list[Effect]]:
    h = Harness(MIXED, timeout=60.0, **options)  # type: ignore[arg-type]
    return h, h.handle(UpgradeRequest(name="u"))


def report_trial(h: Harness, problem: str | None = None) -> list[Effect]:
    return h.handle(UpgradeTried("u", problem))


def test_an_upgrade_is_tried_while_checkpoints_continue() -> None:
    h, effects = request_upgrade()
    assert only(TryUpgrade, effects) == [TryUpgrade(UpgradeRequest(name="u"))]
    assert h.answers("u") == ["accepted"]
    assert (h.c.upgrading, h.c.is_changing, h.c.stopping) == ("u", True, False)
    assert [trigger.kind for trigger in events(CheckpointTriggered, h.at(10.0))] == ["checkpoint"]


def test_r21_an_upgrade_releases_a_savepoint_and_journals_no_end() -> None:
    h, _ = request_upgrade()
    assert [trigger.kind for trigger in events(CheckpointTriggered, report_trial(h))] == ["savepoint"]
    assert h.c.stopping
    effects = h.ack()
    assert only(Release, effects)
    assert not only(EndJob, effects), "its output is not released yet"
    effects = h.released()
    assert only(EndJob, effects) == [EndJob("RESTARTING", None, "u")]  # type: ignore[arg-type]
    assert not events(StatusChanged, effects), "a client would take the job for an ended one"
    assert h.answers("u") == ["accepted"], "the new version sends the last answer"


def test_a_failed_upgrade_trial_is_answered_and_the_job_continues() -> None:
    h, _ = request_upgrade()
    effects = report_trial(h, "no such column")
    assert h.answers("u") == ["accepted", "failed: no such column; the job continues unchanged"]
    assert (h.c.upgrading, h.c.stopping, h.c.status) == (None, False, "RUNNING")
    assert not events(CheckpointTriggered, effects)
    h.handle(UpgradeTried("u", None))
    assert not h.c.stopping
    assert h.c.dropped_messages == {"stale": 1}


def test_an_upgrade_that_is_not_tried_in_time_is_abandoned() -> None:
    h, _ = request_upgrade()
    assert h.c.next_deadline(h.now) is not None
    h.at(59.9)
    assert h.c.upgrading == "u"
    h.at(60.0)
    assert h.answers("u")[1] == "failed: it was not loaded and tried within 60 s; the job continues unchanged"
    report_trial(h)
    assert not h.c.stopping


def test_an_upgrade_without_a_savepoint_in_time_fails() -> None:
    h, _ = request_upgrade(interval=1e6)
    report_trial(h)
    h.at(60.0)
    answer = "failed: the upgrade did not take place: no savepoint within 60 s; last completed checkpoint: none"
    assert h.answers("u")[1] == f"{answer}; the job continues"
    assert (h.c.upgrading, h.c.stopping, h.c.status) == (None, False, "RUNNING")
    assert not only(EndJob, h.effects)


def test_an_upgrade_whose_savepoint_is_not_released_in_time_fails() -> None:
    h, _ = request_upgrade(interval=10.0)
    report_trial(h)
    h.ack()
    effects = h.at(60.0)
    assert "savepoint 1 is not released within 60 s" in h.answers("u")[1]
    assert (h.c.stopping, h.c.status) == (False, "RUNNING")
    assert [trigger.kind for trigger in events(CheckpointTriggered, effects)] == ["checkpoint"]


def test_an_upgrade_of_a_job_that_is_ending_has_no_deadline() -> None:
    """Sink ``a`` has failed, so the run ends when sink ``b`` has released. A past deadline would wake the JobMaster all
    the time."""
    h = Harness(graph(vertex("v", sources="h live", bounded="h", sinks="a b")), timeout=60.0)
    h.handle(UpgradeRequest(name="u"))
    report_trial(h)
    h.ack()
    h.release_failed("a", terminal=True)
    assert h.c.next_deadline(h.now) is None
    h.at(60.0)
    assert not h.c.is_over
    assert h.c.next_deadline(h.now) is None


def test_a_query_failure_abandons_the_upgrade_and_restarts_the_query() -> None:
    """After a stop, no query restarts. This job must continue, so its query restarts."""
    h, _ = request_upgrade(restart_attempts=3, restart_delay=1.0)
    report_trial(h)
    h.fail("v/0", "boom")
    assert h.answers("u")[1].startswith("failed: the upgrade did not take place: v/0 failed meanwhile: boom")
    assert not only(EndJob, h.effects)
    h.next_attempt()
    h.running()
    assert h.c.status == "RUNNING"


def test_a_stop_during_the_savepoint_of_an_upgrade_stops_the_job() -> None:
    h, _ = request_upgrade()
    report_trial(h)
    h.request("stop", "s")
    h.ack()
    h.released()
    assert h.answers("u") == ["accepted", "failed: the job became STOPPED first"]
    assert h.answers("s") == ["already stopping", "completed: savepoint 1 is released"]
    assert [end.status for end in only(EndJob, h.effects)] == ["STOPPED"]
    assert [end.upgrade for end in only(EndJob, h.effects)] == [None]


def test_a_stop_during_the_trial_of_an_upgrade_abandons_it() -> None:
    h, _ = request_upgrade()
    h.request("stop", "s")
    assert h.answers("u")[1] == "failed: the job is being ended"
    report_trial(h)
    h.ack()
    h.released()
    assert h.answers("s")[1] == "completed: savepoint 1 is released"
    assert [end.upgrade for end in only(EndJob, h.effects)] == [None]


def test_an_upgrade_in_progress_refuses_other_requests_by_its_name() -> None:
    h, _ = request_upgrade()
    h.handle(UpgradeRequest(name="u2"))
    h.handle(ReconfigureRequest({"v": VertexSettings(pool_weight=2)}, name="r"))
    assert h.answers("u2") == h.answers("r") == ["refused: upgrade u is in progress"]
    report_trial(h)
    h.handle(UpgradeRequest(name="u3"))
    h.handle(ReconfigureRequest({"v": VertexSettings(pool_weight=2)}, name="r2"))
    h.request("drain", "d")
    assert h.answers("u3") == h.answers("r2") == h.answers("d") == ["refused: upgrade u is in progress"]


def test_an_upgrade_is_refused_while_another_request_is_in_progress() -> None:
    h = Harness(MIXED, timeout=60.0)
    h.handle(ReconfigureRequest({"v": VertexSettings(pool_weight=2)}, name="r"))
    h.handle(UpgradeRequest(name="u"))
    (answer,) = h.answers("u")
    assert "request r" in answer
    assert answer.endswith("is in progress")
    for mode, job in (("drain", "the job is being ended"), ("stop", "the job is being ended")):
        h = Harness(MIXED, timeout=60.0)
        h.request(mode, "x")  # type: ignore[arg-type]
        h.handle(UpgradeRequest(name="u"))
        assert h.answers("u") == [f"refused: {job}"]


def test_an_upgrade_of_a_batch_job_is_refused() -> None:
    h = Harness(graph(vertex("v", sources="h", bounded="h", sinks="sink")), timeout=60.0, mode="batch")
    h.handle(UpgradeRequest(name="u"))
    assert h.answers("u") == ["refused: a job in batch mode takes no savepoint before its end"]


def test_an_upgrade_fails_if_the_job_finishes_first() -> None:
    h = Harness(graph(vertex("v", sources="h", bounded="h", sinks="sink")), timeout=60.0)
    h.handle(UpgradeRequest(name="u"))
    h.end_of_data()
    report_trial(h)
    h.at(h.now + 1.0)
    while not h.c.is_over:
        if h.c.pending is not None:
            h.ack()
        elif h.c.releasing:
            h.released()
        else:
            h.done()
    assert [end.status for end in only(EndJob, h.effects)] == ["FINISHED"]
    assert h.answers("u")[1] == "failed: the job became FINISHED first"
