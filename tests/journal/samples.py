"""Events for tests: a sample of each type, and seeded random events."""

from __future__ import annotations

import random
from dataclasses import replace

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.kinds.reconciliation import Reset
from airflow_provider_ckpt.journal.kinds.reconfiguration import PhaseTimes
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition, VertexDefinition
from airflow_provider_ckpt.model.file_status import ChangedFile
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_code import WITHOUT_SOURCE, JobCode
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.kept_state import KeptState
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.model.worker import Worker
from tests.support.definitions import STREAMING

GRAPH = JobGraph(
    vertices=(
        JobVertex(
            "daily",
            operators=("history", "live", "daily"),
            sources=("history", "live"),
            bounded_sources=("history",),
            sinks=("lake", "warehouse"),
            bounded=False,
            parallelism=2,
        ),
        JobVertex("rates", ("rates",), ("rates",), ("rates",), (), bounded=True),
    ),
    edges=(JobEdge("rates__daily", producer="rates", consumer="daily", operator="daily"),),
)

WORKER = Worker(host="driver-1", boot_id="b-1", pid=4711, started="99", application_id="app-1")


def folded(*events: ev.Event, job_id: str = "orders") -> JobState:
    """Return the state of a job whose journal has these events."""
    state = JobState(job_id)
    for event in events:
        event.apply(state)
    return state


def one_event_of_each() -> list[ev.Event]:
    return [
        ev.EpochClaimed(1, "manual~t1", WORKER, 100.0),
        ev.JobCreated("orders", GRAPH, "streaming", SubmittedOptions({"checkpoint_interval": 30}), 100.25),
        ev.PlanRecorded(GRAPH, {"history": '{"type":"struct","fields":[]}'}, 101.0, STREAMING),
        ev.SourceFrozen("history", "frozen/history.json", 12, 101.5),
        ev.SourceFrozen("rates", None, 0, 101.5),
        ev.StatusChanged(JobStatus.RUNNING, 102.0),
        ev.CheckpointTriggered(1, 110.0),
        ev.CheckpointAborted(1, "CHECKPOINT_EXPIRED", 115.0),
        ev.CheckpointTriggered(2, 120.0),
        ev.CheckpointCompleted(
            2,
            120.0,
            121.5,
            "checkpoint",
            {
                SubtaskId("daily/0"): Snapshot(
                    7, 2, offsets={"live": "{}"}, inputs={"rates__daily": 2}, ended=("rates__daily",)
                ),
                SubtaskId("rates/0"): Snapshot(3, 0, ended=("rates",), finished=True, finished_on_restore=True),
            },
            {"history": "running", "live": "running", "daily": "running", "rates": "finished"},
        ),
        ev.CheckpointReleased(2, 122.0, {"lake": {"files": 3, "rows": 40}}),
        ev.Restored(2, {}, 122.5),
        ev.SourceEnded("daily", "history", 3, 123.0),
        ev.SourceEnded("daily", "rates__daily", 3, 123.0),
        ev.SourceDropped("daily", "history", 4, 124.0),
        ev.LateFilesFound("history", ("a.parquet", "ü b.parquet"), False, 125.0),
        ev.SubtaskEndOfData(SubtaskId("rates/0"), "t1", 126.0),
        ev.SubtaskFinished(SubtaskId("rates/0"), "t1", 127.0),
        ev.CheckpointTriggered(3, 130.0, "savepoint"),
        ev.RequestAnswered("r-1", "stop", RequestOutcome.parse("accepted"), 131.0),
        ev.StatusChanged(JobStatus.RESTARTING, 132.0, "a subtask failed: disk full"),
    ]


def plan_with_timers(bound: str = "time mode ProcessingTime") -> ev.PlanRecorded:
    """Return the plan of a job whose query "daily" keeps state with timers."""
    kept = KeptState("TransformWithState", ("k",), (("live",),), bounds=(bound,))
    vertex = VertexDefinition("append", stateful=True, kept=(kept,))
    return ev.PlanRecorded(GRAPH, {}, 101.0, JobDefinition("streaming", {}, {"daily": vertex}, {}))


def of_files() -> list[ev.Event]:
    """Return the events of files that changed after they were read, and of files that were given up."""
    return [
        ev.SourceFilesChanged("live", (ChangedFile("/in/a", 10, 30), ChangedFile("/in/b", None, 4)), 3, 20, 110.0),
        ev.FilesForgotten(("/in/c", "s3a://b/in/d"), 111.0),
    ]


def of_splits() -> list[ev.Event]:
    """Return one event of splits of each type, in an order in which they happen."""
    return [
        ev.SourceFrozen("history", "frozen/history.json", 10, 101.0),
        ev.SplitsAssigned("history", SubtaskId("history/0"), "0001-ab", ((0, 4),), 110.0),
        ev.SplitsAssigned("history", SubtaskId("history/1"), "0001-ab", ((4, 6),), 110.0),
        ev.SplitsDone("history", SubtaskId("history/1"), ((4, 5),), 111.0),
        ev.SplitsDone("history", SubtaskId("history/0"), ((0, 1),), 112.0),
        ev.SplitsCovered("history", 2, ((0, 1), (4, 5))),
    ]


def of_rescaling() -> list[ev.Event]:
    """Return the events of a source with splits that goes from two subtasks to four.

    The next driver records the same change again.
    """
    two = JobVertex("history", ("history",), ("history",), ("history",), (), bounded=True, parallelism=2, splits=True)
    before = JobGraph((two,), ())
    after = before.rescaled({"history": 4})
    return [
        ev.PlanRecorded(before, {}, 101.0, STREAMING),
        ev.Reconfigured(1, {}, 110.0, ev.GraphChange(after, {"history": 4}), request="r-2"),
        ev.RequestAnswered("r-2", "reconfigure", RequestOutcome.parse("completed: history is read by 4"), 111.0),
        ev.PlanRecorded(after, {}, 120.0, STREAMING, {"history": 4}),
    ]


def of_rescaled_workers() -> list[ev.Event]:
    """Return the events of the same change while workers run the job.

    They record which subtasks host the new ones, and when the new ones may begin.
    """
    first, second, *_ = after = of_rescaling()
    assert isinstance(first, ev.PlanRecorded)
    assert isinstance(second, ev.Reconfigured)
    assert second.graph is not None
    new = [SubtaskId("history/2"), SubtaskId("history/3")]
    hosts = dict(zip(new, [SubtaskId("history/0"), SubtaskId("history/1")], strict=True))
    return [
        first,
        replace(second, graph=replace(second.graph, hosts=hosts)),
        ev.PlanRecorded(second.graph.graph, {}, 111.0, STREAMING, {"history": 4}, hosts=hosts, waiting=(new[1],)),
        ev.SubtasksAdded((new[1],), 112.0),
        *after[2:],
    ]


def of_reconfiguration() -> list[ev.Event]:
    """Return the events of a query that gets another function and another number of state partitions.

    The next driver records the same change again.
    """
    settings = {"daily": VertexSettings(trigger_interval=2.0, state_partitions=8, logic={"daily": "v2.py:job"})}
    took = {"daily": PhaseTimes(1.25, 0.5, 0.0, 1.5)}
    done = RequestOutcome.parse("completed: daily stood still for 1.5 s")
    definition = JobDefinition("streaming", {}, {"daily": VertexDefinition("update", True, shuffle_partitions=200)}, {})
    cut = JobDefinition("streaming", {}, {"daily": VertexDefinition("update", True, shuffle_partitions=8)}, {})
    return [
        ev.PlanRecorded(GRAPH, {}, 101.0, definition),
        ev.Reconfigured(1, settings, 110.0),
        ev.ReconfigurationEnded(1, "r-3", done, took, 112.0),
        ev.RequestAnswered("r-3", "reconfigure", done, 112.0),
        ev.ReconfigurationEnded(0, "r-4", RequestOutcome.parse("failed: no"), {}, 113.0),
        ev.PlanRecorded(GRAPH, {}, 120.0, cut, {}, settings),
    ]


def of_composed() -> list[ev.Event]:
    """Return the event of a change of a query and of a source with splits, which a controller has requested."""
    settings = {"daily": VertexSettings(max_files_per_batch=8)}
    graph = GRAPH.rescaled({"rates": 4})
    done = RequestOutcome.parse("completed: daily stood still for 1.5 s, rates is read by 4")
    took = {"daily": PhaseTimes(1.25, 0.5, 0.0, 1.5)}
    return [
        ev.Reconfigured(1, settings, 110.0, ev.GraphChange(graph, {"rates": 4}), "Autoscaler(daily)"),
        ev.ReconfigurationEnded(1, None, done, took, 112.0, "Autoscaler(daily)", "its batches are full"),
    ]


def of_executors() -> list[ev.Event]:
    """Return the event of a query whose driver must get more executors."""
    return [ev.Reconfigured(1, {"daily": VertexSettings(pool_weight=3, executors=4)}, 110.0)]


def of_code() -> list[ev.Event]:
    """Return a plan of workers with the code that they must have. One module's source is unknown."""
    modules = {"shapes": "0f1e2d3c4b5a6978", "compiled": WITHOUT_SOURCE}
    code = JobCode("89ab45cd01ef2367", {"history": "fedcba9876543210"}, modules)
    return [ev.PlanRecorded(GRAPH, {}, 101.0, STREAMING, code=code)]


def of_earlier_rows() -> list[ev.Event]:
    """Return events in which the answer to the release of checkpoint 1 was lost.

    Its rows are reported with checkpoint 2.
    """
    done = [ev.CheckpointCompleted(n, n * 1.0, n + 0.5, "checkpoint", {}, {}) for n in (1, 2)]
    counts = {"rows": 7, "earlier_rows": 3}
    return [*done, ev.SinkReleased("lake", 2, 3.0, counts), ev.CheckpointReleased(2, 3.5, {"lake": counts})]


def of_recovery() -> list[ev.Event]:
    """Return the events of a job in batch mode that resumes.

    The files of two splits of history/1 are gone, and all files of clean.
    """
    a, b, clean, report = (SubtaskId(name) for name in ("history/0", "history/1", "clean/0", "report/0"))
    return [
        ev.SplitsDone("history", a, ((0, 5),), 101.0),
        ev.SplitsDone("history", b, ((5, 9),), 102.0),
        *(ev.SubtaskEndOfData(subtask, "0001-ab", 103.0) for subtask in (a, b, clean)),
        ev.SubtaskFinished(clean, "0001-ab", 103.5),
        ev.SourceEnded("clean", "history__clean", 0, 104.0),
        ev.JobReconciled(
            2,
            (a,),
            {"history": 7},
            (Reset(clean, ((1, 2),), report), Reset(b, ((2, 3), (4, 5)), clean, ((6, 7), (8, 9)))),
            110.0,
        ),
    ]


def of_deployment() -> list[ev.Event]:
    """Return the events of a job for workers whose JobMaster takes a stop.

    The deployment's next JobMaster follows.
    """
    return [
        ev.DeploymentPrepared(1, 130.0),
        ev.EpochClaimed(2, "t-2", Worker("host"), 131.0, deployment=1),
        ev.SplitsAssigned("history", SubtaskId("history/0"), "0001-01-ab", ((0, 4),), 132.0),
        ev.SplitsAssigned("history", SubtaskId("history/1"), "0001-01-cd", ((2, 3),), 133.0),
        ev.RequestAnswered("r-3", "stop", RequestOutcome.parse("accepted"), 134.0),
    ]


def of_upgrades() -> list[ev.Event]:
    """Return the events of a driver that continues as another version of the job.

    It claims once more, and then gets a request for another version.
    """
    completed = RequestOutcome.completed("the job runs as v2.py:job")
    return [
        ev.JobCreated("orders", GRAPH, "streaming", SubmittedOptions({}), 130.0),
        ev.StatusChanged(JobStatus.RUNNING, 130.5),
        ev.EpochClaimed(2, "t-2", WORKER, 131.0),
        ev.RequestAnswered("u-1", "upgrade", RequestOutcome.parse("accepted"), 132.0),
        ev.EpochClaimed(3, "t-2", WORKER, 133.0, upgrades=2),
        ev.StatusChanged(JobStatus.RUNNING, 134.0),
        ev.RequestAnswered("u-1", "upgrade", completed, 134.5),
        ev.EpochClaimed(4, "t-2", WORKER, 135.0, upgrades=2),
        ev.StatusChanged(JobStatus.RUNNING, 136.0),
        ev.RequestAnswered("u-2", "upgrade", RequestOutcome.parse("accepted"), 137.0),
    ]


def of_restarts() -> list[ev.Event]:
    cause = "query clean failed: IOError: [Errno 5] Input/output error"
    return [
        ev.SubtaskRestarting(SubtaskId("clean/0"), "0001-ab", cause, 1, 3, 1.0, 110.0),
        ev.SubtaskRestarting(SubtaskId("clean/0"), "0001-01-cd", cause, 2, 3, 1.5, 120.0),
        ev.SubtaskRestarting(SubtaskId("history/1"), "0001-ef", "boom", 1, 3, 1.0, 121.0),
    ]


def of_sinks() -> list[ev.Event]:
    """Return the events of two sinks. The first is ahead, and the second follows and skips a checkpoint."""
    done = [ev.CheckpointCompleted(n, n * 1.0, n + 0.5, "checkpoint", {}, {}) for n in (1, 2, 3)]
    return [
        done[0],
        ev.SinkReleased("lake", 1, 2.0, {"rows": 3}),
        ev.CheckpointReleased(1, 2.5, {"lake": {"rows": 3}, "warehouse": {"rows": 3}}),
        done[1],
        ev.SinkReleased("lake", 2, 3.0, {"rows": 4}),
        done[2],
        ev.SinkReleased("warehouse", 3, 5.0, {"rows": 9}),
        ev.CheckpointReleased(2, 5.0, {"lake": {"rows": 4}}),
    ]


def of_a_deletion() -> list[ev.Event]:
    """Return the events of the deletion of a FINISHED job."""
    return [
        ev.EpochClaimed(2, "manual~t1~delete", Worker(), 200.0, releases_only=True),
        ev.DeletionBegun(JobStatus.FINISHED, 200.5, ("0001-01-cd", "0001-ab")),
        ev.JobDeleted(201.0),
    ]


def random_events(seed: int, count: int) -> list[ev.Event]:
    """Return events that a coordinator might write, with checkpoints in the order in which it writes them."""
    rng = random.Random(seed)
    events: list[ev.Event] = []
    checkpoint = 0
    for number in range(count):
        at = float(number)
        kind = rng.randrange(6)
        if kind == 0:
            checkpoint += 1
            events.append(ev.CheckpointTriggered(checkpoint, at))
        elif kind == 1 and checkpoint:
            snapshots = {SubtaskId.of("v", n): Snapshot(n, n) for n in range(rng.randrange(4))}
            events.append(ev.CheckpointCompleted(checkpoint, at - 1, at, "checkpoint", snapshots, {"v": "running"}))
        elif kind == 2 and checkpoint:
            events.append(ev.CheckpointReleased(checkpoint, at))
        elif kind == 3 and checkpoint:
            events.append(ev.CheckpointAborted(checkpoint, rng.choice(["expired", "declined"]), at))
        elif kind == 4:
            events.append(ev.SubtaskFinished(SubtaskId.of("v", rng.randrange(50)), "t1", at))
        else:
            events.append(ev.SourceEnded(f"v{rng.randrange(3)}", f"s{rng.randrange(5)}", rng.randrange(9), at))
    return events
