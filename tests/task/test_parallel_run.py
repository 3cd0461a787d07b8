"""Vertices with several subtasks, in runs of the real JobMaster (FLIP-147: partially finished vertices)."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from airflow_provider_ckpt.journal.events import CheckpointCompleted, SourceDropped, SubtaskEndOfData, SubtaskRestarting
from airflow_provider_ckpt.model.graph import Exchange, JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_status import RuntimeMode
from airflow_provider_ckpt.subtasklog.errors import LogFencedError
from airflow_provider_ckpt.subtasklog.records import Open
from airflow_provider_ckpt.task.phase import TaskPhase
from tests.simulation.runner import Runner
from tests.task.synthetic import SyntheticJob

_NUMBERS = itertools.count()
ROWS = {("a/0", "a"): 1, ("a/1", "a"): 25, ("a/2", "a"): 12, ("b/0", "h"): 3, ("b/1", "h"): 3, ("b/2", "h"): 3}


def two_vertices(exchange: Exchange) -> JobGraph:
    """Return the graph: a (three subtasks, no sink) -> b (three, with a source and a sink of its own)."""
    a = JobVertex("a", ("a",), ("a",), ("a",), (), bounded=True, parallelism=3)
    b = JobVertex("b", ("h", "b"), ("h",), ("h",), ("out",), bounded=True, parallelism=3)
    return JobGraph((a, b), (JobEdge("a__b", "a", "b", "b", exchange),))


@pytest.fixture(params=[False, True], ids=["one process", "over logs"])
def make(request: pytest.FixtureRequest) -> Callable[..., SyntheticJob]:
    def job(exchange: Exchange, mode: RuntimeMode = "streaming", seed: int = 1) -> SyntheticJob:
        name = f"parallel-{os.getpid()}-{next(_NUMBERS)}"
        made = SyntheticJob(two_vertices(exchange), ROWS, mode, name=name, seed=seed, far_apart=request.param)
        request.addfinalizer(made.world.delete)
        return made

    return job


def completed(job: SyntheticJob) -> list[CheckpointCompleted]:
    return [event for _, event in job.world.journal if isinstance(event, CheckpointCompleted)]


@pytest.mark.parametrize("exchange", ["pointwise", "all_to_all"])
@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_every_row_of_every_subtask_arrives_once(
    make: Callable[..., SyntheticJob], exchange: Exchange, mode: RuntimeMode
) -> None:
    job = make(exchange, mode)
    outcome = job.run()
    assert (outcome.status, outcome.cause) == ("FINISHED", None)
    job.world.check_all_rows()


@pytest.mark.parametrize("exchange", ["pointwise", "all_to_all"])
def test_checkpoints_continue_when_some_subtasks_have_finished(
    make: Callable[..., SyntheticJob], exchange: Exchange
) -> None:
    """The other subtasks are held until a checkpoint lists the vertex as partially finished (FLIP-147)."""
    job = make(exchange)

    def held(runner: Runner) -> bool:
        partially = any(event.operators["a"] == "partially finished" for event in completed(job))
        return partially or runner.subtask == "a/0" or runner.log.state.last_batch is None

    assert job.run(held).status == "FINISHED"
    first = next(event for event in completed(job) if event.operators["a"] == "partially finished")
    assert first.subtasks[SubtaskId("a/0")].finished_on_restore
    assert not first.subtasks[SubtaskId("a/1")].finished
    assert first.operators["b"] == "running"
    job.world.check_all_rows()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("exchange", ["pointwise", "all_to_all"])
@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_the_run_after_a_crash_of_any_subtask_finishes(
    make: Callable[..., SyntheticJob], exchange: Exchange, mode: RuntimeMode, seed: int
) -> None:
    job = make(exchange, mode, seed)
    victim = f"{'ab'[seed % 2]}/{seed % 3}"
    steps = itertools.count()

    def crashing(runner: Runner) -> bool:
        if runner.subtask == victim and next(steps) == 2 + seed:
            raise ValueError("on purpose")
        return True

    first = job.run(crashing)
    assert first.status == "RESTARTING"
    assert "on purpose" in str(first.cause)
    assert job.run().status == "FINISHED"
    job.world.check_all_rows()


def test_dropping_a_source_of_several_subtasks_is_journaled_once(
    make: Callable[..., SyntheticJob],
) -> None:
    """The first subtask that pauses for it reports it for all of them (R20)."""
    job = make("all_to_all")

    def until_dropped(runner: Runner) -> bool:
        dropped = any(isinstance(event, SourceDropped) and event.uid == "h" for _, event in job.world.journal)
        return dropped or runner.subtask != "a/1" or runner.log.state.last_batch is None

    assert job.run(until_dropped).status == "FINISHED"
    assert [event.uid for _, event in job.world.journal if isinstance(event, SourceDropped)].count("h") == 1
    job.world.check_all_rows()


def opens(job: SyntheticJob, subtask: SubtaskId) -> list[AttemptId]:
    return [record.attempt for record in job.world.logs[subtask] if isinstance(record, Open)]


def test_r5_each_subtask_has_its_own_attempt(make: Callable[..., SyntheticJob]) -> None:
    """The attempt's name distinguishes its staged output from that of a sibling."""
    job = make("pointwise", "batch")
    assert job.run().status == "FINISHED"
    attempts = [attempt for subtask in job.world.subtasks for attempt in opens(job, subtask)]
    assert len(set(attempts)) == len(job.world.subtasks)
    assert {(attempt.epoch, attempt.number) for attempt in attempts} == {(1, 0)}
    ends = [event for _, event in job.world.journal if isinstance(event, SubtaskEndOfData)]
    assert {event.subtask: event.attempt for event in ends} == {
        subtask: str(opens(job, subtask)[0]) for subtask in job.world.subtasks
    }


@pytest.mark.slow
@pytest.mark.parametrize("victim", [SubtaskId("a/1"), SubtaskId("b/1")])
@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_r22_a_replaced_subtask_continues_while_the_others_run(
    make: Callable[..., SyntheticJob], mode: RuntimeMode, victim: SubtaskId
) -> None:
    """The first attempt runs on after the next one has opened the log. Nothing it does from then on counts.

    The output that siblings have staged, under attempts of the same epoch, is still there.
    """
    job = make("all_to_all", mode)
    replaced: list[AttemptId] = []
    fenced: list[LogFencedError] = []

    def replacing(runner: Runner) -> bool:
        runs = runner.subtask == victim and runner.machine.phase is TaskPhase.RUNNING
        if runs and not replaced and (mode == "batch" or runner.log.state.last_batch is not None):
            replaced.extend([runner.attempt, job.replace(runner)])
            works_on(runner)
        return True

    def works_on(zombie: Runner) -> None:
        try:
            while True:
                zombie.put_barrier(10_000 + len(fenced))
        except LogFencedError as error:
            fenced.append(error)
            raise

    outcome = job.run(replacing)
    assert (outcome.status, outcome.cause) == ("FINISHED", None)
    assert [error.data["attempt"] for error in fenced] == replaced[1:]
    assert opens(job, victim) == replaced
    assert [attempt.number for attempt in replaced] == [0, 1]
    assert {attempt.epoch for attempt in replaced} == {1}
    assert {len(opens(job, other)) for other in job.world.subtasks if other != victim} == {1}
    job.world.check_all_rows()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_subtask_can_be_replaced_repeatedly(make: Callable[..., SyntheticJob], seed: int) -> None:
    """Two subtasks at a time, at any moment of their lives, also at their end of data."""
    job = make("pointwise", seed=seed)
    victims = (SubtaskId("a/1"), SubtaskId("b/2"))
    steps: dict[str, Iterator[int]] = {victim: itertools.count(seed) for victim in victims}

    def replacing(runner: Runner) -> bool:
        at = steps.get(runner.subtask)
        if at is not None and next(at) % 7 == 6 and runner.attempt.number < 4 and is_current(runner):
            job.replace(runner)
        return True

    def is_current(runner: Runner) -> bool:
        state = job.log(runner.subtask).state
        return not state.closed and state.opened is not None and state.opened.attempt == runner.attempt

    outcome = job.run(replacing)
    assert (outcome.status, outcome.cause) == ("FINISHED", None)
    for victim in victims:
        assert [attempt.number for attempt in opens(job, victim)] == [*range(len(opens(job, victim)))]
        assert len(opens(job, victim)) > 1
    job.world.check_all_rows()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_r15_only_failed_subtasks_restart(make: Callable[..., SyntheticJob], mode: RuntimeMode, seed: int) -> None:
    """Several subtasks fail at any moment of their lives. The run continues, and every row arrives once."""
    job = make("all_to_all", mode, seed)
    often = 9 if mode == "streaming" else 2  # a batch is one step
    steps: dict[str, Iterator[int]] = {victim: itertools.count(3 * seed) for victim in ("a/1", "b/0", "b/2")}

    def failing(runner: Runner) -> bool:
        at = steps.get(runner.subtask)
        if at is not None and next(at) % often == often - 1 and runner.attempt.number < 4:
            raise OSError("the disk does not answer")
        return True

    outcome = job.run(failing, restarts=10)
    assert (outcome.status, outcome.cause) == ("FINISHED", None)
    failures = Counter(event.subtask for _, event in job.world.journal if isinstance(event, SubtaskRestarting))
    assert failures.keys() <= steps.keys()
    assert failures[SubtaskId("a/1")] > 0
    for subtask in job.world.subtasks:
        assert [attempt.number for attempt in opens(job, subtask)] == [*range(failures[subtask] + 1)]
    assert {attempt.epoch for subtask in job.world.subtasks for attempt in opens(job, subtask)} == {1}
    job.world.check_all_rows()


def test_a_subtask_that_fails_too_often_ends_the_run(make: Callable[..., SyntheticJob]) -> None:
    job = make("all_to_all")

    def failing(runner: Runner) -> bool:
        if runner.subtask == "a/1":
            raise OSError("the disk does not answer")
        return True

    outcome = job.run(failing, restarts=2)
    assert outcome.status == "RESTARTING"
    assert "a/1: OSError: the disk does not answer (after 2 restarts in a row)" in str(outcome.cause)
    assert [attempt.number for attempt in opens(job, SubtaskId("a/1"))] == [0, 1, 2]
