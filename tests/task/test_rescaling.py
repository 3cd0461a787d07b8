"""Rescales of a source with splits while the real JobMaster runs the job (R21)."""

from __future__ import annotations

import itertools
import os
import threading
from collections import Counter
from collections.abc import Callable

import pytest

from airflow_provider_ckpt.jobmaster import job_master
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import RuntimeMode
from airflow_provider_ckpt.model.split import size
from airflow_provider_ckpt.subtasklog.records import Batch, Open
from tests.simulation.runner import Runner
from tests.simulation.split_runner import SplitRunner
from tests.task.synthetic import SyntheticJob

_NUMBERS = itertools.count()
SPLITS = {f"s{number}": number % 4 for number in range(30)}
MODES = ("streaming", "batch")


def graph() -> JobGraph:
    """Return the graph: parts (by split, with a sink) -> b (two subtasks, with a sink)."""
    parts = JobVertex("parts", ("parts",), ("parts",), ("parts",), ("raw",), bounded=True, parallelism=1, splits=True)
    b = JobVertex("b", ("b",), (), (), ("out",), bounded=True, parallelism=2)
    return JobGraph((parts, b), (JobEdge("parts__b", "parts", "b", "b", "all_to_all"),))


@pytest.fixture(params=[False, True], ids=["one process", "over logs"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SyntheticJob]:
    monkeypatch.setattr(job_master, "HOUSEKEEPING", 0.01)

    def job(mode: RuntimeMode = "streaming", seed: int = 1) -> SyntheticJob:
        name = f"rescaling-{os.getpid()}-{next(_NUMBERS)}"
        splits = {"parts": SPLITS}
        made = SyntheticJob(graph(), {}, mode, name=name, seed=seed, far_apart=request.param, splits=splits)
        request.addfinalizer(made.world.delete)
        return made

    return job


class Rescales:
    """A hook that requests parallelisms one after the other. ``steps``: number of read splits -> next parallelism.

    No subtask reads on until the request has an answer; if another request is due, until its final answer. ``also``:
    hook to call before each step.
    """

    def __init__(
        self, job: SyntheticJob, steps: dict[int, int], also: Callable[[Runner], bool] = lambda runner: True
    ) -> None:
        self.job, self._steps, self._also = job, sorted(steps.items()), also
        self._lock = threading.Lock()
        self.asked: list[str] = []

    def __call__(self, runner: Runner) -> bool:
        if not self._also(runner):
            return False
        if not isinstance(runner, SplitRunner) or not runner.reading.next():
            return True
        with self._lock:
            outcomes = answers(self.job, self.asked[-1]) if self.asked else ["completed"]
            if not self._steps or count_done(self.job) < self._steps[0][0]:
                return bool(outcomes)
            if outcomes and outcomes[-1] != "accepted":
                _, wanted = self._steps.pop(0)
                self.asked.append(self.job.rescale("parts", wanted))
            return False


def answers(job: SyntheticJob, request: str) -> list[str]:
    events = [event for _, event in list(job.world.journal) if isinstance(event, ev.RequestAnswered)]
    return [str(event.outcome).partition(":")[0] for event in events if event.request == request]


def count_done(job: SyntheticJob) -> int:
    return sum(size(event.splits) for _, event in list(job.world.journal) if isinstance(event, ev.SplitsDone))


def changes(job: SyntheticJob) -> list[ev.GraphChange]:
    decided = [event for _, event in list(job.world.journal) if isinstance(event, ev.Reconfigured)]
    return [event.graph for event in decided if event.graph is not None]


def readers(job: SyntheticJob) -> set[SubtaskId]:
    """Return the subtasks that have read a split."""
    logs = {name: log for name, log in job.world.logs.items() if name.vertex == "parts"}
    return {name for name, log in logs.items() if any(isinstance(record, Batch) for record in log)}


def opened(job: SyntheticJob, epoch: int) -> list[SubtaskId]:
    logs = job.world.logs.items()
    return [
        name for name, log in logs if any(isinstance(record, Open) and record.attempt.epoch == epoch for record in log)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("before", "steps"), [(1, {2: 4}), (4, {4: 1}), (2, {3: 4, 9: 1, 14: 3}), (3, {5: 3})])
def test_every_row_arrives_once_after_rescales_up_and_down(
    make: Callable[..., SyntheticJob], mode: RuntimeMode, before: int, steps: dict[int, int]
) -> None:
    job = make(mode)
    rescales = Rescales(job, steps)
    assert job.run(rescales, parallelism={"parts": before}).status == "FINISHED"
    job.world.check_all_rows()
    assert [answers(job, request)[-1] for request in rescales.asked] == ["completed"] * len(steps)
    wanted = [before, *steps.values()]  # a request for the current number is answered as done and decides nothing
    decided = [after for now, after in itertools.pairwise(wanted) if now != after]
    assert [event.rescaled["parts"] for event in changes(job)] == decided
    assert len(readers(job)) <= job.world.graph.vertex("parts").parallelism


def test_a_checkpoint_covers_the_new_subtasks_once_they_run(make: Callable[..., SyntheticJob]) -> None:
    """The subtasks are held after the request until a checkpoint covers the new ones.

    The world checks that none is taken before they run.
    """
    job = make()

    def held(runner: Runner) -> bool:
        if (
            not rescales.asked
            or not isinstance(runner, SplitRunner)
            or not runner.reading.next()
            or count_done(job) < 6
        ):
            return True
        new = SubtaskId("parts/1")
        return any(
            isinstance(event, ev.CheckpointCompleted) and new in event.subtasks for _, event in job.world.journal
        )

    rescales = Rescales(job, {2: 3}, held)
    assert job.run(rescales, parallelism={"parts": 1}).status == "FINISHED"
    job.world.check_all_rows()
    sizes = [len(event.subtasks) for _, event in job.world.journal if isinstance(event, ev.CheckpointCompleted)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("restarts", [0, 50])
def test_a_rescaled_job_survives_a_crash_of_any_subtask(
    make: Callable[..., SyntheticJob], mode: RuntimeMode, seed: int, restarts: int
) -> None:
    """The run continues with restarts. Without them the next run continues, with the parallelism in the journal."""
    job = make(mode, seed)
    victims = {"parts/0": 3 + 5 * seed, "b/1": 2 + 9 * seed, f"parts/{1 + seed % 3}": 1 + seed}
    steps, crashed = Counter[str](), set[str]()

    def crashing(runner: Runner) -> bool:
        steps[runner.subtask] += 1
        if steps[runner.subtask] == victims.get(runner.subtask) and (restarts or not crashed):
            crashed.add(runner.subtask)
            raise ValueError("on purpose")
        return True

    rescales = Rescales(job, {4: 4, 16: 2}, crashing)
    status = job.run(rescales, parallelism={"parts": 2}, restarts=restarts).status
    assert status in (("FINISHED",) if restarts else ("RESTARTING", "FINISHED")), seed
    if status == "RESTARTING":
        wanted = changes(job)[-1].rescaled["parts"] if changes(job) else 2
        assert job.run(Rescales(job, {}), parallelism={"parts": 2}).status == "FINISHED"
        assert plans(job)[-1].rescaled == ({} if wanted == 2 else {"parts": wanted})
    job.world.check_all_rows()
    assert crashed


def plans(job: SyntheticJob) -> list[ev.PlanRecorded]:
    return [event for _, event in job.world.journal if isinstance(event, ev.PlanRecorded)]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("declared", [1, 2])
def test_r21_the_next_run_begins_subtasks_of_a_decided_rescale(
    make: Callable[..., SyntheticJob], mode: RuntimeMode, declared: int
) -> None:
    """None of the new subtasks has begun. The next run has all of them, unless the job declares another number."""
    job = make(mode)
    begin = job.begin

    def dies(*args: object) -> None:
        raise ValueError("killed")

    def dying(runner: Runner) -> bool:
        """Crash when a consumer must pause, in streaming mode. In batch mode no consumer runs then."""
        if changes(job) and mode == "streaming":
            raise ValueError("killed")
        return True

    job.begin = dies  # type: ignore[method-assign, assignment]
    first = job.run(Rescales(job, {3: 4}, dying), parallelism={"parts": 1})
    job.begin = begin  # type: ignore[method-assign]
    assert (first.status, "killed" in str(first.cause)) == ("RESTARTING", True)
    assert changes(job)[-1].rescaled == {"parts": 4}
    assert not any(isinstance(record, Open) for record in job.world.logs[SubtaskId("parts/3")])
    assert job.run(parallelism={"parts": declared}).status == "FINISHED"
    job.world.check_all_rows()
    assert job.graph.vertex("parts").parallelism == 4
    later = {event.subtask for epoch, event in job.world.journal if epoch == 2 and isinstance(event, ev.SplitsAssigned)}
    assert len(later) == (4 if declared == 1 else 2)
    assert plans(job)[-1].rescaled == ({"parts": 4} if declared == 1 else {})


def test_a_later_declared_parallelism_replaces_the_rescaled_one(
    make: Callable[..., SyntheticJob],
) -> None:
    job = make()

    def until(splits: int) -> Callable[[Runner], bool]:
        """Return a hook that crashes after so many splits."""

        def crashing(runner: Runner) -> bool:
            if count_done(job) < splits:
                return True
            if splits == 8 and not changes(job):
                # the request is not decided, or not yet due because several splits are reported as done at once
                return not before.asked
            raise ValueError("on purpose")

        return crashing

    runs = [(1, 8, {}), (1, 11, {"parts": 3}), (2, 14, {}), (1, 17, {})]
    for declared, splits, rescaled in runs:
        before = Rescales(job, {3: 3} if splits == 8 else {}, until(splits))
        assert job.run(before, parallelism={"parts": declared}).status == "RESTARTING"
        assert plans(job)[-1].rescaled == rescaled
    assert job.run(parallelism={"parts": 1}).status == "FINISHED"
    job.world.check_all_rows()


@pytest.mark.parametrize(("uid", "wanted"), [("b", 3), ("nobody", 3), ("parts", 0)])
def test_an_impossible_rescale_is_refused_and_the_job_continues(
    make: Callable[..., SyntheticJob], uid: str, wanted: int
) -> None:
    job = make()
    asked: list[str] = []

    def asking(runner: Runner) -> bool:
        if not asked:
            asked.append(job.rescale(uid, wanted))
        return bool(answers(job, asked[0]))

    assert job.run(asking, parallelism={"parts": 2}).status == "FINISHED"
    assert answers(job, asked[0]) == ["refused"]
    assert changes(job) == []
    job.world.check_all_rows()
