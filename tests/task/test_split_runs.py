"""Sources with splits in runs of the real JobMaster: some subtasks finish early, others read the remaining splits."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable

import pytest

from airflow_provider_ckpt.jobmaster.recovery.split_progress import restored_splits, subtasks_needed
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition, SourceDefinition
from airflow_provider_ckpt.model.graph import Exchange, JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_status import RuntimeMode
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.memory import MemoryStorage
from airflow_provider_ckpt.subtasklog.log_state import Numbered
from airflow_provider_ckpt.subtasklog.log_truncation import LogTruncation
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.simulation.runner import Runner
from tests.simulation.split_runner import SplitRunner
from tests.simulation.world import JOB
from tests.task.synthetic import SyntheticJob

_NUMBERS = itertools.count()
SPLITS = {f"s{number}": number % 4 for number in range(12)}


def graph(exchange: Exchange, sinks: tuple[str, ...] = ()) -> JobGraph:
    """Return the graph: parts (by split) -> b (two subtasks, with a sink)."""
    parts = JobVertex("parts", ("parts",), ("parts",), ("parts",), sinks, bounded=True, parallelism=1, splits=True)
    b = JobVertex("b", ("b",), (), (), ("out",), bounded=True, parallelism=2)
    return JobGraph((parts, b), (JobEdge("parts__b", "parts", "b", "b", exchange),))


@pytest.fixture(params=[False, True], ids=["one process", "over logs"])
def make(request: pytest.FixtureRequest) -> Callable[..., SyntheticJob]:
    def job(mode: RuntimeMode = "streaming", sinks: tuple[str, ...] = (), seed: int = 1) -> SyntheticJob:
        name = f"splits-{os.getpid()}-{next(_NUMBERS)}"
        made = SyntheticJob(
            graph("all_to_all", sinks),
            {},
            mode,
            name=name,
            seed=seed,
            far_apart=request.param,
            splits={"parts": SPLITS},
        )
        request.addfinalizer(made.world.delete)
        return made

    return job


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["streaming", "batch"])
@pytest.mark.parametrize("parallelism", [1, 4, 20])
def test_every_split_arrives_once(make: Callable[..., SyntheticJob], mode: RuntimeMode, parallelism: int) -> None:
    job = make(mode)
    assert job.run(parallelism={"parts": parallelism}).status == "FINISHED"
    job.world.check_all_rows()


@pytest.mark.parametrize("sinks", [(), ("raw",)], ids=["no sink", "sink"])
def test_5_subtasks_read_the_rest_after_2_of_4_have_finished(
    make: Callable[..., SyntheticJob], sinks: tuple[str, ...]
) -> None:
    """Checkpoints continue meanwhile, and the remaining splits go to the new subtasks (FLIP-147, FLIP-27)."""
    job = make(sinks=sinks)
    stuck: set[str] = set()

    def before(runner: Runner) -> bool:
        """Hold two subtasks with a split each, until a checkpoint covers the end of the other two. Then crash."""
        if not isinstance(runner, SplitRunner):
            return True
        if runner.reading.next() and (len(stuck) < 2 or runner.subtask in stuck):
            stuck.add(runner.subtask)
            if finished(job) >= 2:
                raise ValueError("on purpose")
            return False
        return True

    first = job.run(before, parallelism={"parts": 4})
    assert (first.status, "on purpose" in str(first.cause)) == ("RESTARTING", True)
    left = {number for number, _ in enumerate(SPLITS)} - splits_read(job)
    assert left
    assert job.run(parallelism={"parts": 5}).status == "FINISHED"
    assert job.graph.vertex("parts").parallelism == 7
    later = [event for epoch, event in job.world.journal if epoch == 2 and isinstance(event, ev.SplitsAssigned)]
    assert {n for event in later for start, end in event.splits for n in range(start, end)} == left
    job.world.check_all_rows()


def finished(job: SyntheticJob) -> int:
    last = [event for _, event in job.world.journal if isinstance(event, ev.CheckpointCompleted)][-1:]
    return sum(
        s.finished_on_restore for progress in last for name, s in progress.subtasks.items() if name.startswith("parts/")
    )


def splits_read(job: SyntheticJob) -> set[int]:
    logs = [log for name, log in job.world.logs.items() if name.startswith("parts/")]
    named = {name for log in logs for record in log if isinstance(record, Batch) for name in record.splits}
    return {number for number, name in enumerate(SPLITS) if name in named}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_another_parallelism_reads_the_rest_after_a_crash(
    make: Callable[..., SyntheticJob], mode: RuntimeMode, seed: int
) -> None:
    job = make(mode, ("raw",), seed)
    steps, victim = Counter[str](), f"parts/{seed % 3}"

    def crashing(runner: Runner) -> bool:
        """Hold the other subtasks after three steps, so that they cannot read everything before the crash."""
        steps[runner.subtask] += 1
        if runner.subtask == victim and steps[victim] == 4 + seed:
            raise ValueError("on purpose")
        return runner.subtask == victim or not runner.subtask.startswith("parts/") or steps[runner.subtask] <= 3

    assert job.run(crashing, parallelism={"parts": 3}).status == "RESTARTING"
    assert job.run(parallelism={"parts": 1 + seed}).status == "FINISHED"
    job.world.check_all_rows()


# -- restored splits


def test_r14_a_split_that_a_checkpoint_covers_outlives_its_entry() -> None:
    """The log is truncated past the entry."""
    storage = MemoryStorage("r14")
    log = SubtaskLog(storage, "log")
    log.load()
    log.open(AttemptId.first(1, "a"))
    for number in range(3):
        log.append_batch(Batch(number, {}, splits=(f"s{number}",)))
    LogTruncation(storage, "log", lambda: None).truncate(3, None)
    state = JobState(JOB)
    ev.SplitsCovered("parts", 1, ((0, 1), (1, 2))).apply(state)
    state.last_completed = 1
    again = SubtaskLog(storage, "log")
    again.load()
    lists = {"parts": [Split(f"s{n}", n) for n in range(5)]}
    splits = restored_splits(state, graph("all_to_all"), {SubtaskId("parts/0"): again}, lists, {"parts": 1})["parts"]
    assert (set(splits.covered), splits.published) == ({0, 1}, {1: ("parts/0", 2), 2: ("parts/0", 3)})


def test_r14_the_next_driver_finds_all_splits_of_an_entry() -> None:
    storage = MemoryStorage("r14-together")
    log = SubtaskLog(storage, "log")
    log.load()
    log.open(AttemptId.first(1, "a"))
    log.append_batch(Batch(0, {}, splits=("s3",)))
    log.append_batch(Batch(1, {}, splits=("s0", "s2", "of another list")))
    lists = {"parts": [Split(f"s{n}", n) for n in range(5)]}
    logs = {SubtaskId("parts/0"): log}
    splits = restored_splits(JobState(JOB), graph("all_to_all"), logs, lists, {"parts": 1})["parts"]
    assert splits.published == {0: ("parts/0", 2), 2: ("parts/0", 2), 3: ("parts/0", 1)}


def test_r14_a_subtask_that_ended_in_its_log_takes_no_splits() -> None:
    """The previous JobMaster died before it read the report of that end."""
    storage, logs = MemoryStorage("r14-ended"), {}
    for name in ("parts/0", "parts/1"):
        log = logs[SubtaskId(name)] = SubtaskLog(storage, name)
        log.load()
        log.open(AttemptId.first(1, "a"))
    logs[SubtaskId("parts/0")].end_of_data("finish")
    lists = {"parts": [Split(f"s{n}", n) for n in range(5)]}
    two = graph("all_to_all").rescaled({"parts": 2})
    splits = restored_splits(JobState(JOB), two, logs, lists, {"parts": 1})["parts"]
    assert (list(splits.readers), list(splits.ended)) == (["parts/1"], ["parts/0"])


class _GoesOn(SubtaskLog):
    """A log whose attempt keeps running under the next JobMaster, and ends right after the JobMaster has read it."""

    def records(self, start: int = 0) -> list[Numbered]:
        entries = list(super().records(start))
        if not self.has_ended:
            self.append_batch(Batch(0, {}, splits=("s0",)))
            self.end_of_data("finish")
        return entries


def test_r14_w13_an_end_after_the_read_of_published_splits_is_ignored() -> None:
    """Otherwise its assigned splits would go to other subtasks, which would publish them once more."""
    log = _GoesOn(MemoryStorage("r14-goes-on"), "log")
    log.load()
    log.open(AttemptId.first(1, "a"))
    lists = {"parts": [Split(f"s{n}", n) for n in range(5)]}
    logs = {SubtaskId("parts/0"): log}
    splits = restored_splits(JobState(JOB), graph("all_to_all"), logs, lists, {"parts": 1})["parts"]
    assert log.has_ended
    assert (splits.published, list(splits.ended)) == ({}, [])


@pytest.mark.parametrize(
    ("before", "declared", "ended", "now", "needed"),
    [
        (4, 4, 0, 4, 4),
        (4, 4, 2, 4, 4),
        (4, 4, 2, 5, 7),
        (4, 4, 0, 5, 5),
        (4, 4, 1, 2, 4),
        (7, 5, 2, 5, 7),
        (4, 4, 4, 9, 4),
    ],
)
def test_a_run_needs_subtasks_for_ended_and_remaining_splits(
    before: int, declared: int, ended: int, now: int, needed: int
) -> None:
    journal = Journal(MemoryStorage(f"needed-{next(_NUMBERS)}"), JOB)
    journal.claim("t", Worker(), 0.0)
    vertex = JobVertex("parts", ("parts",), ("parts",), ("parts",), (), True, before, splits=True)
    definition = JobDefinition("streaming", {"parts": SourceDefinition(True, parallelism=declared)}, {}, {})
    journal.write(ev.PlanRecorded(JobGraph((vertex,), ()), {}, 0.0, definition))
    for number in range(ended):
        journal.write(ev.SubtaskEndOfData(SubtaskId(f"parts/{number}"), "t", 1.0))
    assert subtasks_needed(journal.state, "parts", now) == needed


def test_a_new_source_has_as_many_subtasks_as_it_declares() -> None:
    assert subtasks_needed(JobState(JOB), "parts", 3) == 3
