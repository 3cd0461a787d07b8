"""Releases of several sinks, each of which proceeds on its own and is reported to the job."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.coordinator.protocol.checkpoint_options import MAX_UNRELEASED
from airflow_provider_ckpt.coordinator.protocol.commands import FinishSubtask
from airflow_provider_ckpt.coordinator.protocol.effects import Append, EndJob, Notice, Release
from airflow_provider_ckpt.coordinator.protocol.messages import ReleaseDone
from airflow_provider_ckpt.coordinator.state.release_state import GATE_PAUSE, REMEMBERED
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.journal.events import CheckpointCompleted, CheckpointReleased, SinkReleased
from airflow_provider_ckpt.journal.state import JobState
from tests.coordinator.harness import ONE, V0, A, Harness, events, graph, names, only, vertex

TWO = graph(vertex("v", sources="live", sinks="a b"))
BOUNDED = graph(vertex("v", sources="v", bounded="v", sinks="a b"))


def complete(h: Harness, times: int = 1) -> None:
    for _ in range(times):
        h.at(h.now + 10.0)
        h.ack()


def test_r9_a_slow_sink_does_not_delay_others() -> None:
    h = Harness(TWO)
    complete(h)
    assert only(Release, h.effects) == [Release(1, "a"), Release(1, "b")]
    assert names(h.released(1, "a")) == ["SinkReleased"]
    complete(h)
    assert only(Release, h.effects)[2:] == [Release(2, "a")]
    h.released(2, "a")
    assert h.c.last_released == 0
    assert names(h.released(1, "b")) == ["CheckpointReleased", "Release"]
    assert h.c.last_released == 1
    assert names(h.released(2, "b")) == ["CheckpointReleased"]
    assert h.c.last_released == 2


def test_r9_a_lagging_sink_releases_the_newest_checkpoint_next() -> None:
    h = Harness(TWO)
    complete(h)
    for _ in range(3):
        h.released(sink="a")
        complete(h)
    effects = h.released(1, "b")
    assert only(Release, effects) == [Release(4, "b")]
    effects = h.released(4, "b")  # a has released 3 and is releasing 4
    assert names(effects) == ["SinkReleased", "CheckpointReleased"]
    assert events(SinkReleased, effects)[0].checkpoint == 4
    assert events(CheckpointReleased, effects)[0].checkpoint == 3
    assert names(h.released(4, "a")) == ["CheckpointReleased"]


def test_a_sink_that_fails_for_hours_stops_no_checkpoints_and_no_other_sink() -> None:
    h = Harness(TWO)
    for _ in range(3 * MAX_UNRELEASED):
        complete(h)
        if "b" in h.c.releasing:
            assert not only(EndJob, h.release_failed("b"))
        h.released(sink="a")
    assert len(events(CheckpointCompleted, h.effects)) == 3 * MAX_UNRELEASED
    assert [release.checkpoint for release in events(SinkReleased, h.effects)] == list(range(1, 3 * MAX_UNRELEASED + 1))
    assert h.c.last_released == 0
    messages = [notice.message for notice in only(Notice, h.effects)]
    assert len(messages) < 8
    assert all(message.startswith("sink b: has waited ") for message in messages)


def test_a_job_that_releases_nothing_slows_down_and_ends() -> None:
    h = Harness(TWO, interval=1.0)
    for _ in range(2 * MAX_UNRELEASED):
        h.at(h.now + 1.0)
        h.ack()
    assert len(events(CheckpointCompleted, h.effects)) == MAX_UNRELEASED
    while not only(EndJob, h.effects):
        for sink in list(h.c.releasing):
            h.release_failed(sink)
        h.at(h.now + 30.0)
    assert only(EndJob, h.effects)[0].status == "RESTARTING"
    assert h.now < 400.0


def test_a_terminal_sink_failure_ends_the_job_after_the_other_releases() -> None:
    h = Harness(TWO)
    complete(h)
    assert not only(EndJob, h.release_failed("b", terminal=True))
    assert h.at(h.now + 100.0) == []  # no new release begins, and b is not retried
    effects = h.released(1, "a")
    assert names(effects) == ["SinkReleased", "StatusChanged", "EndJob"]
    end = only(EndJob, effects)[0]
    assert end.status == "FAILED"
    assert "in 'b' failed: no answer" in str(end.cause)


def test_r15_a_subtask_finishes_after_every_sink_has_released() -> None:
    h = Harness(BOUNDED)
    h.end_of_data()
    h.ack(finished=True)
    assert not only(FinishSubtask, h.released(sink="a"))
    assert FinishSubtask(1, V0, A) in h.released(sink="b")


def test_a_restored_sink_release_is_not_repeated() -> None:
    restored = RestoredState(
        last_triggered=5, last_completed=5, last_released=2, unreleased=(3, 4, 5), sinks_released={"a": 5}
    )
    h = Harness(TWO, restored=restored)
    assert only(Release, h.effects) == [Release(5, "b")]
    assert names(h.released(5, "b")) == ["CheckpointReleased"]


def test_a_release_report_of_an_unknown_sink_is_dropped() -> None:
    h = Harness(TWO)
    complete(h)
    assert h.released(1, "other") == []
    assert h.c.dropped_messages == {"sink": 1}


# -- gates


def test_a_gate_holds_releases_while_checkpoints_continue() -> None:
    h = Harness(ONE)
    complete(h)
    (notice,) = only(Notice, h.held())
    assert "holds its releases, from checkpoint 1 on" in notice.message
    for _ in range(2 * MAX_UNRELEASED):
        complete(h)
        assert only(Notice, h.held()) == []
    assert len(events(CheckpointCompleted, h.effects)) == 2 * MAX_UNRELEASED + 1
    assert not events(CheckpointReleased, h.effects)
    newest = h.c.last_completed
    h.at(h.now + GATE_PAUSE)
    assert [release.checkpoint for release in events(CheckpointReleased, h.released())] == [newest]


def test_the_notice_names_the_sink_with_the_gate() -> None:
    h = Harness(TWO)
    complete(h)
    notices = [only(Notice, h.held(sink, gate_of="b")) for sink in ("a", "b")]
    assert [notice.message.partition(", from")[0] for [notice] in notices] == [
        "the gate of 'b' holds the releases of 'a', which shares its transaction",
        "the gate of 'b' holds its releases",
    ]
    h.at(h.now + GATE_PAUSE)
    assert [only(Notice, h.held(sink, gate_of="b")) for sink in ("a", "b")] == [[], []]
    h.at(h.now + GATE_PAUSE)
    [other] = only(Notice, h.held("b", gate_of="a"))
    assert "the gate of 'a' holds the releases of 'b'" in other.message, "the gate is a different one now"


def test_a_closed_gate_is_polled_again_after_a_pause() -> None:
    h = Harness(ONE, interval=1e9)
    h.at(1e9)
    h.ack()
    h.held()
    assert h.c.next_deadline(h.now) == h.now + GATE_PAUSE
    assert only(Release, h.at(h.now + GATE_PAUSE / 2)) == []
    assert only(Release, h.at(h.now + GATE_PAUSE)) == [Release(1, "sink")]


def test_a_job_at_its_end_waits_for_the_gate() -> None:
    h = Harness(graph(vertex("v", sources="v", bounded="v", sinks="sink")))
    h.end_of_data()
    h.ack(finished=True)
    assert only(FinishSubtask, h.held()) == []
    h.at(h.now + GATE_PAUSE)
    assert FinishSubtask(1, V0, A) in h.released()


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_stop_does_not_wait_for_a_gate_and_names_it(first: str) -> None:
    h = Harness(TWO)
    h.request("stop", "r")
    h.at(1.0)
    h.ack()
    if first == "a":
        h.released(sink="a")
        effects = h.held("b")
    else:
        h.held("b")
        effects = h.released(sink="a")
    assert only(EndJob, effects)[0].status == "STOPPED"
    assert "the gates of b hold" in h.answers("r")[-1]


def test_a_stop_waits_for_a_sink_that_no_gate_holds() -> None:
    h = Harness(TWO)
    h.request("stop", "r")
    h.at(1.0)
    h.ack()
    assert only(EndJob, h.held("b")) == []
    assert only(EndJob, h.release_failed("a")) == []
    h.at(h.now + 1.0)
    assert only(EndJob, h.released(sink="a"))[0].status == "STOPPED"


def test_a_release_longer_than_a_hundred_checkpoints_is_journaled() -> None:
    h = Harness(TWO)
    for _ in range(2 * REMEMBERED):
        complete(h)
        h.released(sink="a")
    assert h.c.releasing == {"b": 1}
    assert names(h.released(1, "b")) == ["SinkReleased", "Release"]
    newest = h.c.last_completed
    assert [release.checkpoint for release in events(CheckpointReleased, h.released(newest, "b"))] == [newest]


def test_r7_the_checkpoint_of_a_slow_release_stays_in_the_journal() -> None:
    """The next release starts at its positions, and a new driver relies on the journal."""
    h = Harness(TWO)
    complete(h)
    h.released(1)
    complete(h)
    for _ in range(2 * REMEMBERED):
        h.released(sink="a")
        complete(h)
    assert h.c.releasing == {"a": h.c.last_completed, "b": 2}
    h.released(2, "b")
    state = JobState("job")
    for effect in only(Append, h.effects):
        effect.event.apply(state)
    assert state.sinks_released["a"] == h.c.last_completed - 1
    assert state.last_released in (1, 2)
    for number in (2, *state.sinks_released.values()):
        assert number in state.checkpoints


def test_releases_of_an_end_only_sink_do_not_prolong_a_failing_run() -> None:
    """That sink neither resets the other sink's count of tries nor allows more unreleased checkpoints."""
    h = Harness(TWO, interval=1.0)
    while not only(EndJob, h.effects):
        h.at(h.now + 1.0)
        if h.c.pending is not None:
            h.ack()
        if "a" in h.c.releasing:
            h.handle(ReleaseDone(h.epoch, h.c.releasing["a"], "a", {}))
        if "b" in h.c.releasing:
            h.release_failed("b")
        assert h.now < 10_000.0
    assert only(EndJob, h.effects)[0].status == "RESTARTING"
    assert h.now < 320.0  # five minutes after the first release that failed, and not after the last of the other sink
    assert len(events(CheckpointCompleted, h.effects)) == MAX_UNRELEASED
