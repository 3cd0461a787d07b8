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


def asked(**options: float) -> tuple[Harness, list[Effect]]:
    h = Harness(MIXED, timeout=60.0, **options)  # type: ignore[arg-type]
    return h, h.handle(UpgradeRequest(name="u"))


def tried(h: Harness, problem: str | None = None) -> list[Effect]:
    return h.handle(UpgradeTried("u", problem))


def test_it_is_tried_while_the_job_runs_and_checkpoints_go_on() -> None:
    h, effects = asked()
    assert only(TryUpgrade, effects) == [TryUpgrade(UpgradeRequest(name="u"))]
    assert h.answers("u") == ["accepted"]
    assert (h.c.upgrading, h.c.is_changing, h.c.stopping) == ("u", True, False)
    assert [one.kind for one in events(CheckpointTriggered, h.at(10.0))] == ["checkpoint"]


def test_r21_it_leaves_behind_a_savepoint_that_is_released_and_tells_no_end() -> None:
    h, _ = asked()
    assert [one.kind for one in events(CheckpointTriggered, tried(h))] == ["savepoint"]
    assert h.c.stopping
    effects = h.ack()
    assert only(Release, effects)
    assert not only(EndJob, effects), "its output is not released yet"
    effects = h.released()
    assert only(EndJob, effects) == [EndJob("RESTARTING", None, "u")]  # type: ignore[arg-type]
    assert not events(StatusChanged, effects), "who watches would take the job for one that is over"
    assert h.answers("u") == ["accepted"], "the version that goes on has the last word"


def test_what_speaks_against_it_is_the_answer_and_the_job_goes_on() -> None:
    h, _ = asked()
    effects = tried(h, "no such column")
    assert h.answers("u") == ["accepted", "failed: no such column; the job continues unchanged"]
    assert (h.c.upgrading, h.c.stopping, h.c.status) == (None, False, "RUNNING")
    assert not events(CheckpointTriggered, effects)
    h.handle(UpgradeTried("u", None))
    assert not h.c.stopping
    assert h.c.dropped_messages == {"stale": 1}


def test_one_that_is_not_tried_in_time_is_given_up_and_what_comes_then_is_not_heard() -> None:
    h, _ = asked()
    assert h.c.next_deadline(h.now) is not None
    h.at(59.9)
    assert h.c.upgrading == "u"
    h.at(60.0)
    assert h.answers("u")[1] == "failed: it was not loaded and tried within 60 s; the job continues unchanged"
    tried(h)
    assert not h.c.stopping


def test_without_a_savepoint_in_time_the_job_goes_on() -> None:
    h, _ = asked(interval=1e6)
    tried(h)
    h.at(60.0)
    answer = "failed: the upgrade did not take place: no savepoint within 60 s; last completed checkpoint: none"
    assert h.answers("u")[1] == f"{answer}; the job continues"
    assert (h.c.upgrading, h.c.stopping, h.c.status) == (None, False, "RUNNING")
    assert not only(EndJob, h.effects)


def test_a_savepoint_that_is_not_released_in_time_is_not_waited_for_without_checkpoints() -> None:
    h, _ = asked(interval=10.0)
    tried(h)
    h.ack()
    effects = h.at(60.0)
    assert "savepoint 1 is not released within 60 s" in h.answers("u")[1]
    assert (h.c.stopping, h.c.status) == (False, "RUNNING")
    assert [one.kind for one in events(CheckpointTriggered, effects)] == ["checkpoint"]


def test_an_upgrade_of_a_job_that_is_ending_has_no_deadline() -> None:
    """Sink ``a`` has failed, so the run ends when sink ``b`` has released. A past deadline would wake the JobMaster all
    the time."""
    h = Harness(graph(vertex("v", sources="h live", bounded="h", sinks="a b")), timeout=60.0)
    h.handle(UpgradeRequest(name="u"))
    tried(h)
    h.ack()
    h.release_failed("a", terminal=True)
    assert h.c.next_deadline(h.now) is None
    h.at(60.0)
    assert not h.c.is_over
    assert h.c.next_deadline(h.now) is None


def test_a_query_that_fails_meanwhile_begins_again_and_the_upgrade_is_given_up() -> None:
    """After a stop, no query restarts. This job must continue, so its query restarts."""
    h, _ = asked(restart_attempts=3, restart_delay=1.0)
    tried(h)
    h.fail("v/0", "boom")
    assert h.answers("u")[1].startswith("failed: the upgrade did not take place: v/0 failed meanwhile: boom")
    assert not only(EndJob, h.effects)
    h.next_attempt()
    h.running()
    assert h.c.status == "RUNNING"


def test_who_stops_the_job_meanwhile_has_it_stopped() -> None:
    h, _ = asked()
    tried(h)
    h.request("stop", "s")
    h.ack()
    h.released()
    assert h.answers("u") == ["accepted", "failed: the job became STOPPED first"]
    assert h.answers("s") == ["already stopping", "completed: savepoint 1 is released"]
    assert [one.status for one in only(EndJob, h.effects)] == ["STOPPED"]
    assert [one.upgrade for one in only(EndJob, h.effects)] == [None]


def test_who_stops_the_job_while_it_is_tried_goes_first() -> None:
    h, _ = asked()
    h.request("stop", "s")
    assert h.answers("u")[1] == "failed: the job is being ended"
    tried(h)
    h.ack()
    h.released()
    assert h.answers("s")[1] == "completed: savepoint 1 is released"
    assert [one.upgrade for one in only(EndJob, h.effects)] == [None]


def test_one_change_at_a_time_by_the_name_of_the_first() -> None:
    h, _ = asked()
    h.handle(UpgradeRequest(name="u2"))
    h.handle(ReconfigureRequest({"v": VertexSettings(pool_weight=2)}, name="r"))
    assert h.answers("u2") == h.answers("r") == ["refused: upgrade u is in progress"]
    tried(h)
    h.handle(UpgradeRequest(name="u3"))
    h.handle(ReconfigureRequest({"v": VertexSettings(pool_weight=2)}, name="r2"))
    h.request("drain", "d")
    assert h.answers("u3") == h.answers("r2") == h.answers("d") == ["refused: upgrade u is in progress"]


def test_it_waits_for_nothing_that_is_under_way_and_says_what_that_is() -> None:
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


def test_a_batch_job_and_one_at_its_end_are_refused() -> None:
    h = Harness(graph(vertex("v", sources="h", bounded="h", sinks="sink")), timeout=60.0, mode="batch")
    h.handle(UpgradeRequest(name="u"))
    assert h.answers("u") == ["refused: a job in batch mode takes no savepoint before its end"]


def test_a_job_that_finishes_first_says_so() -> None:
    h = Harness(graph(vertex("v", sources="h", bounded="h", sinks="sink")), timeout=60.0)
    h.handle(UpgradeRequest(name="u"))
    h.end_of_data()
    tried(h)
    h.at(h.now + 1.0)
    while not h.c.is_over:
        if h.c.pending is not None:
            h.ack()
        elif h.c.releasing:
            h.released()
        else:
            h.done()
    assert [one.status for one in only(EndJob, h.effects)] == ["FINISHED"]
    assert h.answers("u")[1] == "failed: the job became FINISHED first"
