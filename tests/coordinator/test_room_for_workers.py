"""Jobs in batch mode that have room for fewer workers than subtasks; a subtask without a worker waits until another
ends."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.coordinator.protocol.commands import DeploySubtask, FinishSubtask
from airflow_provider_ckpt.coordinator.protocol.effects import EndJob
from airflow_provider_ckpt.coordinator.protocol.reports import SubtaskFailed
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from tests.coordinator.harness import Harness, graph, only, vertex

FIRST, LAST = SubtaskId("src/0"), SubtaskId("mid/0")
STAGES = graph(
    vertex("src", sources="src", bounded="src"), vertex("mid", bounded="", sources="", sinks="sink"), edges="src>mid"
)
WITH_TWO_SINKS = graph(
    vertex("src", sources="src", bounded="src", sinks="raw"), vertex("mid", sources="m", bounded="m", sinks="sink")
)


def with_workers(of: JobGraph = STAGES, *, mode: str = "batch", attempts: int = 0) -> Harness:
    return Harness(of, has_workers=True, running=False, slots=8, mode=mode, timeout=60.0, restart_attempts=attempts)


def ended(h: Harness) -> str | None:
    ends = only(EndJob, h.effects)
    return f"{ends[0].status}: {ends[0].cause}" if ends else None


def start(h: Harness, subtask: SubtaskId, now: float) -> None:
    h.at(now)
    h.next_attempt(subtask)
    if any(deploy.subtask == subtask for deploy in only(DeploySubtask, h.effects)):
        h.running(subtask)


def finish(h: Harness, subtask: SubtaskId, now: float) -> None:
    h.now = now
    h.end_of_data(subtask)
    assert FinishSubtask(1, subtask, h.attempts[subtask]) in h.effects
    h.done(subtask)


def test_a_subtask_waits_for_a_worker_while_another_subtask_runs() -> None:
    h = with_workers()
    start(h, FIRST, 5.0)
    for now in (61.0, 600.0, 7200.0):
        h.at(now)
    assert ended(h) is None
    finish(h, FIRST, 9000.0)
    start(h, LAST, 9059.0)
    h.at(20_000.0)
    assert ended(h) is None


def test_a_run_without_a_running_subtask_ends_after_the_timeout() -> None:
    h = with_workers()
    start(h, FIRST, 5.0)
    finish(h, FIRST, 9000.0)
    h.at(9059.9)
    assert ended(h) is None
    assert h.c.next_deadline(9059.9) == 9060.0
    h.at(9060.0)
    cause = "mid/0: its next attempt has not begun within 60 s in which no other subtask ran (the checkpoint timeout)"
    assert str(ended(h)).startswith(f"RESTARTING: {cause}")


def test_a_producer_without_a_worker_ends_the_run_despite_its_consumer() -> None:
    """The consumer waits for the producer and does not count as running."""
    h = with_workers()
    start(h, LAST, 5.0)
    h.at(59.9)
    assert ended(h) is None
    h.at(60.0)
    assert str(ended(h)).startswith("RESTARTING: src/0")


def test_a_subtask_with_a_sink_keeps_its_worker_at_end_of_data() -> None:
    """The subtask waits for the final checkpoint, and the checkpoint waits for the other subtask."""
    h = with_workers(WITH_TWO_SINKS)
    start(h, FIRST, 5.0)
    h.at(600.0)
    h.end_of_data(FIRST)
    h.at(659.9)
    assert ended(h) is None
    h.at(660.0)
    assert str(ended(h)).startswith("RESTARTING: mid/0")


def test_gaps_between_subtasks_do_not_add_up() -> None:
    """A worker takes a minute to start, so each stage adds a gap of a minute."""
    count = 20
    uids = [f"v{number}" for number in range(count)]
    line = graph(*(vertex(uid, sources=uid, bounded=uid) for uid in uids))
    h = with_workers(line)
    for number, uid in enumerate(uids):
        subtask, now = SubtaskId(f"{uid}/0"), 100.0 * number + 50.0
        start(h, subtask, now)
        finish(h, subtask, now + 50.0)
    assert str(ended(h)).startswith("FINISHED"), "twenty gaps of 50 s"


@pytest.mark.parametrize("is_lost", [True, False])
def test_only_a_lost_worker_leaves_a_vacancy(is_lost: bool) -> None:
    """The failed attempt hangs in a living worker, so no worker is missing."""
    h = with_workers(WITH_TWO_SINKS, attempts=3)
    for subtask in (FIRST, LAST):
        start(h, subtask, 5.0)
    h.at(10.0)
    h.handle(SubtaskFailed(1, LAST, h.attempts[LAST], "its worker has left", worker_is_lost=is_lost))
    h.at(3600.0)
    assert (ended(h) is None) is is_lost


def test_in_streaming_mode_every_subtask_must_start_within_the_timeout() -> None:
    h = with_workers(WITH_TWO_SINKS, mode="streaming")
    start(h, FIRST, 5.0)
    h.at(60.0)
    cause = "mid/0: its next attempt has not begun within 60 s (the checkpoint timeout)"
    assert str(ended(h)).startswith(f"RESTARTING: {cause}")


def test_a_driver_without_workers_ends_when_an_attempt_does_not_start() -> None:
    """An attempt that does not begin in a driver hangs."""
    h = Harness(WITH_TWO_SINKS, slots=8, mode="batch", timeout=60.0, restart_attempts=3)
    h.fail(LAST)
    h.at(100.0)
    assert str(ended(h)).startswith("RESTARTING: mid/0: its next attempt has not begun within 60 s (the")
