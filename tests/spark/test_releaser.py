"""The choice of the handles that a checkpoint releases (R9)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.client.errors import NoSuchJobError
from airflow_provider_ckpt.coordinator.protocol.messages import ReleaseDone, ReleaseFailed, ReleaseHeld
from airflow_provider_ckpt.job.sink_operator import Gate, PendingRelease
from airflow_provider_ckpt.jobmaster.release.release_policies import ReleasePolicies
from airflow_provider_ckpt.jobmaster.release.releaser import Releaser
from airflow_provider_ckpt.journal.events import CheckpointCompleted
from airflow_provider_ckpt.journal.sink_progress import SinkProgress
from airflow_provider_ckpt.model.checkpoint_view import CheckpointKind
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.sinks.errors import StagedFilesMissingError
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, ReleaseParticipant, StageRequest
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.support.waiting import wait_until

GRAPH = JobGraph((JobVertex("v", ("v",), ("v",), (), ("s",), bounded=False),), ())


REPLY_LOST = StorageTransientError(verb="commit", uri="u", reason="the reply was lost")


class Target(BoundSink):
    """A sink that keeps its releases in a list."""

    def __init__(self, error: Exception | None = None) -> None:
        self.released: list[tuple[int, list[str]]] = []
        self.error = error
        self.losing = 0

    def stage(self, frame: object, request: StageRequest) -> Handle:
        return {"id": request.id, "rows": 0}

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        if self.error is not None:
            raise self.error
        released = {handle_id for _, ids in self.released for handle_id in ids}
        new = [handle["id"] for handle in handles if handle["id"] not in released]
        self.released.append((checkpoint, new))
        if self.losing:
            self.losing -= 1
            raise REPLY_LOST
        return {"rows": len(new)}

    def last_released(self) -> int:
        return max((checkpoint for checkpoint, _ in self.released), default=0)

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        return []


@pytest.fixture
def log(tmp_path: Path) -> SubtaskLog:
    subtask_log = SubtaskLog(open_storage(tmp_path), "log")
    subtask_log.load()
    subtask_log.open(AttemptId(1, 0, "a"))
    return subtask_log


def publish(log: SubtaskLog, number: int) -> None:
    log.append_batch(Batch(number, {}, handles={"s": {"id": f"h{number}", "rows": 1}}))


def completed(log: SubtaskLog, number: int, kind: CheckpointKind = "checkpoint") -> CheckpointCompleted:
    return CheckpointCompleted(number, 0.0, 1.0, kind, {SubtaskId("v/0"): log.barrier(1, number)}, {})


def release(
    log: SubtaskLog,
    target: Target,
    *pairs: tuple[CheckpointCompleted, CheckpointCompleted | None],
    final_only: bool = False,
    gate: Gate | None = None,
) -> list[object]:
    answers: list[object] = []
    policies = ReleasePolicies(frozenset({"s"} if final_only else ()), {} if gate is None else {"s": gate})
    releaser = Releaser(
        lambda: GRAPH,
        {SubtaskId("v/0"): log},
        {"s": target},
        policies,
        job_id="j",
        epoch=1,
        post=answers.append,
        check_fenced=lambda: None,
    )
    for checkpoint, after in pairs:
        releaser.release("s", checkpoint, {"s": SinkProgress(after)})
    releaser.close()
    return answers


def test_a_checkpoint_releases_the_handles_since_the_previous_one(log: SubtaskLog) -> None:
    publish(log, 0)
    first = completed(log, 1)
    publish(log, 1)
    publish(log, 2)
    second = completed(log, 2)
    publish(log, 3)
    target = Target()
    answers = release(log, target, (first, None), (second, first))
    assert target.released == [(1, ["h0"]), (2, ["h1", "h2"])]
    assert answers == [ReleaseDone(1, 1, "s", {"rows": 1}), ReleaseDone(1, 2, "s", {"rows": 2})]


def test_a_final_only_sink_gets_everything_with_the_final_checkpoint(log: SubtaskLog) -> None:
    publish(log, 0)
    first = completed(log, 1)
    publish(log, 1)
    log.end_of_data("finish")
    final = completed(log, 2, "final")
    target = Target()
    release(log, target, (first, None), (final, first), final_only=True)
    assert target.released == [(2, ["h0", "h1"])]


def test_a_checkpoint_triggered_before_the_end_can_count_as_final(log: SubtaskLog) -> None:
    """The end of data overtook the barrier.

    No other checkpoint follows, and the sink would never release.
    """
    publish(log, 0)
    log.end_of_data("drain")
    target = Target()
    release(log, target, (completed(log, 1, "checkpoint"), None), final_only=True)
    assert target.released == [(1, ["h0"])]


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (None, "a value of type NoneType"),
        ({"rows": 1.0, "files": 2}, "no whole number for rows"),
        ({"files": 2}, 'counts without "rows"'),
    ],
)
def test_a_sink_with_an_invalid_release_result_fails_terminally(log: SubtaskLog, answer: object, result: str) -> None:
    class Silent(Target):
        def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
            super().release(handles, checkpoint)
            return answer  # type: ignore[return-value]

    publish(log, 0)
    [failed] = release(log, Silent(), (completed(log, 1), None))
    assert isinstance(failed, ReleaseFailed)
    assert failed.terminal
    assert f"Silent) returned from release() {result}; it has to be counts" in failed.cause
    assert failed.cause.startswith("sink 's' (")


def test_a_savepoint_does_not_release_a_final_only_sink(log: SubtaskLog) -> None:
    publish(log, 0)
    target = Target()
    release(log, target, (completed(log, 1, "savepoint"), None), final_only=True)
    assert target.released == []


def test_a_failed_release_reports_whether_it_is_terminal(log: SubtaskLog) -> None:
    publish(log, 0)
    checkpoint = completed(log, 1)
    lost = StagedFilesMissingError(job="j", checkpoint=1, sink="s", count=1, path="p", uri="u")
    errors = [StorageTransientError(verb="move", uri="u", reason="gone"), lost, OSError("odd")]
    for error, terminal in zip(errors, (False, True, False), strict=True):
        (answer,) = release(log, Target(error), (checkpoint, None))
        assert isinstance(answer, ReleaseFailed)
        assert (answer.checkpoint, answer.terminal) == (1, terminal)


def test_r21_output_of_an_added_subtask_is_released(log: SubtaskLog, tmp_path: Path) -> None:
    """The releaser reads the graph each time, because it may have changed since."""
    other = SubtaskLog(open_storage(tmp_path), "other")
    other.load()
    other.open(AttemptId(1, 1, "b"))
    other.append_batch(Batch(0, {}, handles={"s": {"id": "new", "rows": 1}}))
    publish(log, 0)
    logs = {SubtaskId("v/0"): log, SubtaskId("v/1"): other}
    now = [GRAPH]
    target, answers = Target(), list[object]()
    releaser = Releaser(
        lambda: now[0],
        logs,
        {"s": target},
        ReleasePolicies(),
        job_id="j",
        epoch=1,
        post=answers.append,
        check_fenced=lambda: None,
    )
    now[0] = GRAPH.rescaled({"v": 3})
    both = {name: subtask_log.barrier(1, 1) for name, subtask_log in logs.items()}  # v/2 has not started
    releaser.release("s", CheckpointCompleted(1, 0.0, 1.0, "checkpoint", both, {}), {})
    releaser.close()
    assert target.released == [(1, ["h0", "new"])]


def test_a_gate_is_called_only_for_a_release_with_handles(log: SubtaskLog) -> None:
    empty = completed(log, 1)
    publish(log, 0)
    filled = completed(log, 2)
    asked, target, is_open = list[PendingRelease](), Target(), [False]

    def gate(pending: PendingRelease) -> bool:
        asked.append(pending)
        return is_open[0]

    assert release(log, target, (empty, None), (filled, empty), gate=gate) == [
        ReleaseDone(1, 1, "s", {"rows": 0}),
        ReleaseHeld(1, 2, "s", "s"),
    ]
    assert asked == [PendingRelease("j", "s", 2, 1)]
    is_open[0] = True
    assert release(log, target, (filled, empty), gate=gate) == [ReleaseDone(1, 2, "s", {"rows": 1})]
    assert target.released == [(1, []), (2, ["h0"])]


@pytest.mark.parametrize("answer", ["false", None, 1])
def test_a_gate_with_a_non_boolean_result_fails_the_release(log: SubtaskLog, answer: object) -> None:
    publish(log, 0)
    target = Target()
    (failed,) = release(log, target, (completed(log, 1), None), gate=lambda pending: answer)  # type: ignore[return-value,arg-type]
    assert isinstance(failed, ReleaseFailed)
    assert failed.terminal
    assert repr(answer) in failed.cause
    assert target.released == []


def test_a_gate_that_raises_holds_the_release_and_is_called_again(log: SubtaskLog) -> None:
    publish(log, 0)
    target = Target()

    def gate(pending: PendingRelease) -> bool:
        raise ConnectionError("the service is down")

    (failed,) = release(log, target, (completed(log, 1), None), gate=gate)
    assert isinstance(failed, ReleaseFailed)
    assert not failed.terminal
    assert "the service is down" in failed.cause
    assert target.released == []


def test_an_error_of_this_package_from_a_gate_is_retryable(log: SubtaskLog) -> None:
    """Elsewhere this error is terminal. A gate that reads another job raises it until that job has started."""
    publish(log, 0)

    def gate(pending: PendingRelease) -> bool:
        raise NoSuchJobError(job_id="upstream", root="/r", known="none")

    (failed,) = release(log, Target(), (completed(log, 1), None), gate=gate)
    assert isinstance(failed, ReleaseFailed)
    assert not failed.terminal
    assert "the gate of sink 's' of job 'j'" in failed.cause


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError()])
def test_each_exception_of_a_gate_fails_the_release(log: SubtaskLog, error: BaseException) -> None:
    publish(log, 0)

    def gate(pending: PendingRelease) -> bool:
        raise error

    (failed,) = release(log, Target(), (completed(log, 1), None), gate=gate)
    assert isinstance(failed, ReleaseFailed)


class Shop:
    """A database with two sinks. ``released``: the releases of each call, by sink."""

    def __init__(self) -> None:
        self.released: list[tuple[int, dict[str, list[str]]]] = []
        self.failing = self.losing = 0
        self.answers: list[Any] = []
        self.sinks = {uid: Table(uid, self) for uid in ("s", "t")}


class Table(Target):
    def __init__(self, uid: str, shop: Shop) -> None:
        super().__init__()
        self.uid, self.shop = uid, shop

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        raise AssertionError("it is never released by itself")

    def release_together(self, participants: Sequence[ReleaseParticipant], checkpoint: int) -> list[dict[str, int]]:
        if self.shop.answers:
            answer: list[dict[str, int]] = self.shop.answers.pop()
            return answer
        if self.shop.failing:
            self.shop.failing -= 1
            raise StorageTransientError(verb="commit", uri="u", reason="gone")
        released = {handle_id for _, of in self.shop.released for ids in of.values() for handle_id in ids}
        done = [
            (participant.sink, [handle["id"] for handle in participant.handles if handle["id"] not in released])
            for participant in participants
        ]
        self.shop.released.append((checkpoint, {sink.uid: ids for sink, ids in done if isinstance(sink, Table)}))
        if self.shop.losing:
            self.shop.losing -= 1
            raise REPLY_LOST
        return [{"rows": len(ids)} for _, ids in done]


def release_shared(
    log: SubtaskLog, shop: Shop, *asked: tuple[str, CheckpointCompleted, CheckpointCompleted | None], **gates: Gate
) -> list[object]:
    graph = JobGraph((JobVertex("v", ("v",), ("v",), (), ("s", "t"), bounded=False),), ())
    answers: list[object] = []
    releaser = Releaser(
        lambda: graph,
        {SubtaskId("v/0"): log},
        shop.sinks,
        ReleasePolicies(gates=gates, transactions={"s": ("s", "t"), "t": ("s", "t")}),
        job_id="j",
        epoch=1,
        post=answers.append,
        check_fenced=lambda: None,
    )
    for uid, checkpoint, after in asked:
        count = len(answers)
        releaser.release(uid, checkpoint, {"s": SinkProgress(after), "t": SinkProgress(after)})
        wait_until(lambda: len(answers) > count, "an answer")  # noqa: B023
    releaser.close()
    return answers


def publish_both(log: SubtaskLog, number: int) -> None:
    log.append_batch(Batch(number, {}, handles={uid: {"id": f"{uid}{number}", "rows": 1} for uid in ("s", "t")}))


def test_sinks_with_a_shared_transaction_are_released_in_one_call(log: SubtaskLog) -> None:
    publish_both(log, 0)
    first = completed(log, 1)
    publish_both(log, 1)
    second = completed(log, 2)
    shop = Shop()
    answers = release_shared(
        log, shop, ("s", first, None), ("s", second, first), ("t", first, None), ("t", second, first)
    )
    assert shop.released == [(1, {"s": ["s0"], "t": ["t0"]}), (2, {"s": ["s1"], "t": ["t1"]})]
    assert answers == [
        ReleaseDone(1, 1, "s", {"rows": 1}),
        ReleaseDone(1, 2, "s", {"rows": 1}),
        ReleaseDone(1, 1, "t", {"rows": 2}),  # the rows released with "s", reported once
        ReleaseDone(1, 2, "t", {"rows": 0}),
    ]


def test_the_gate_of_a_sink_holds_all_sinks_of_its_transaction(log: SubtaskLog) -> None:
    publish_both(log, 0)
    checkpoint, shop, is_open = completed(log, 1), Shop(), [False]
    asked = ("s", checkpoint, None), ("t", checkpoint, None)
    answers = release_shared(log, shop, *asked, t=lambda pending: is_open[0])
    assert answers == [ReleaseHeld(1, 1, "s", "t"), ReleaseHeld(1, 1, "t", "t")], (
        "the last field names the sink whose gate holds"
    )
    assert shop.released == []
    is_open[0] = True
    release_shared(log, shop, *asked, t=lambda pending: is_open[0])
    assert shop.released == [(1, {"s": ["s0"], "t": ["t0"]})]


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("both", "release_together() a value of type str; it has to be a list of the counts of all 2 sinks"),
        ([{"rows": 1}], "release_together() a value of type list of length 1"),
        ([{"rows": 1}, {"rows": "1"}], "release() no whole number for rows"),
        ([{"rows": 1}, {}], 'release() counts without "rows"'),
    ],
)
def test_an_invalid_result_of_a_shared_release_fails_terminally(log: SubtaskLog, answer: Any, result: str) -> None:
    publish_both(log, 0)
    shop = Shop()
    shop.answers = [answer]
    [failed] = release_shared(log, shop, ("s", completed(log, 1), None))
    assert isinstance(failed, ReleaseFailed)
    assert failed.terminal
    assert f"(Table) returned from {result}" in failed.cause


def test_a_failed_shared_release_is_retried_for_the_next_sink(log: SubtaskLog) -> None:
    publish_both(log, 0)
    checkpoint, shop = completed(log, 1), Shop()
    shop.failing = 1
    failed, *done = release_shared(log, shop, ("s", checkpoint, None), ("t", checkpoint, None), ("s", checkpoint, None))
    assert isinstance(failed, ReleaseFailed)
    assert done == [ReleaseDone(1, 1, "t", {"rows": 1}), ReleaseDone(1, 1, "s", {"rows": 1})]
    assert shop.released == [(1, {"s": ["s0"], "t": ["t0"]})]


def test_rows_of_an_earlier_checkpoint_are_reported_as_earlier_rows(log: SubtaskLog) -> None:
    """The sink's ledger is not at that checkpoint, and the next start must not expect it there."""
    publish_both(log, 0)
    first, second = completed(log, 1), completed(log, 2)
    shop = Shop()
    answers = release_shared(log, shop, ("s", first, None), ("t", second, None))
    assert answers == [
        ReleaseDone(1, 1, "s", {"rows": 1}),
        ReleaseDone(1, 2, "t", {"rows": 1, "earlier_rows": 1}),
    ]


def test_released_rows_are_reported_once_despite_a_late_coordinator(log: SubtaskLog) -> None:
    """The answer for "t" is on its way to the coordinator while that requests the release of "s"."""
    publish_both(log, 0)
    first = completed(log, 1)
    publish_both(log, 1)
    second, shop = completed(log, 2), Shop()
    *_, last = release_shared(
        log, shop, ("s", first, None), ("t", first, None), ("s", second, None), ("t", second, None)
    )
    assert last == ReleaseDone(1, 2, "t", {"rows": 1})


def test_rows_of_a_transaction_with_a_lost_reply_are_reported_next(log: SubtaskLog) -> None:
    publish_both(log, 0)
    first = completed(log, 1)
    publish_both(log, 1)
    second, shop = completed(log, 2), Shop()
    shop.losing = 1
    lost, *done = release_shared(log, shop, ("s", first, None), ("t", second, None), ("s", second, None))
    assert isinstance(lost, ReleaseFailed)
    rows = {"rows": 2, "earlier_rows": 1}
    assert done == [ReleaseDone(1, 2, "t", rows), ReleaseDone(1, 2, "s", rows)]
    assert shop.released == [(1, {"s": ["s0"], "t": ["t0"]}), (2, {"s": ["s1"], "t": ["t1"]})]


def test_rows_of_a_release_with_a_lost_reply_are_reported_next(log: SubtaskLog) -> None:
    publish(log, 0)
    first = completed(log, 1)
    publish(log, 1)
    second, third = completed(log, 2), completed(log, 3)
    target = Target()
    target.losing = 1
    lost, *done = release(log, target, (first, None), (second, None), (third, second))
    assert isinstance(lost, ReleaseFailed)
    assert done == [
        ReleaseDone(1, 2, "s", {"rows": 2, "earlier_rows": 1}),
        ReleaseDone(1, 3, "s", {"rows": 0}),
    ]
    assert target.released == [(1, ["h0"]), (2, ["h1"]), (3, [])]


def test_rows_released_by_a_dead_driver_are_reported_next(log: SubtaskLog) -> None:
    publish(log, 0)
    first, second, target = completed(log, 1), completed(log, 2), Target()
    release(log, target, (first, None))
    assert release(log, target, (second, None)) == [ReleaseDone(1, 2, "s", {"rows": 1, "earlier_rows": 1})]


def test_a_log_shorter_than_its_checkpoint_releases_nothing(log: SubtaskLog) -> None:
    publish(log, 0)
    checkpoint = completed(log, 1)
    beyond = replace(
        checkpoint, subtasks={name: replace(each, position=9) for name, each in checkpoint.subtasks.items()}
    )
    target = Target()
    (failed,) = release(log, target, (beyond, None))
    assert isinstance(failed, ReleaseFailed)
    assert failed.terminal
    assert target.released == []
