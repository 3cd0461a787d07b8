"""Whole runs without Spark: real JobMaster, gateway, journal, logs, releaser and retention; simulated tasks.

Each task runs in its own thread. A vertex may have any number of subtasks.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from airflow_provider_ckpt.coordinator.protocol.reports import (
    DataAvailable,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskFailed,
    SubtaskFenced,
    SubtaskOpened,
    SubtaskRunning,
    TaskReport,
)
from airflow_provider_ckpt.coordinator.state.enumerator import RestoredSplits
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.jobmaster.assembly import job_master
from airflow_provider_ckpt.jobmaster.gateway import Inbox
from airflow_provider_ckpt.jobmaster.job_identity import JobIdentity
from airflow_provider_ckpt.jobmaster.job_master import Outcome
from airflow_provider_ckpt.jobmaster.recorded_plan import record_plan
from airflow_provider_ckpt.jobmaster.recovery import takeover
from airflow_provider_ckpt.jobmaster.recovery.attempt_names import continues_at, new_nonce
from airflow_provider_ckpt.jobmaster.recovery.opened_logs import open_logs
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.recovery.recovery_point import load_logs
from airflow_provider_ckpt.jobmaster.recovery.restored_state import first_plan, restored
from airflow_provider_ckpt.jobmaster.recovery.split_progress import readers_wanted, restored_splits, subtasks_needed
from airflow_provider_ckpt.jobmaster.retention.collector import collect_garbage
from airflow_provider_ckpt.journal.events import Event
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.model.channel import readers
from airflow_provider_ckpt.model.definition import JobDefinition, SourceDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_request import ReconfigureRequest
from airflow_provider_ckpt.model.job_status import RuntimeMode
from airflow_provider_ckpt.model.pause_reason import PauseReason
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, StageRequest
from airflow_provider_ckpt.status.status_reporter import StatusReporter
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.subtasklog.errors import LogFencedError
from airflow_provider_ckpt.subtasklog.log_reader import CurrentLog, LogReader, TailingLogReader
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.local_gateway import LocalGateway
from airflow_provider_ckpt.task.phase import TaskPhase
from airflow_provider_ckpt.task.restarts import Restarts
from airflow_provider_ckpt.task.task import Task
from tests.simulation.runner import BatchRunner, Runner, StreamingRunner
from tests.simulation.split_runner import SplitRunner
from tests.simulation.world import JOB, World

IDLE = 0.002
"""Seconds that an idle task waits for a command."""


class RowSink(BoundSink):
    """A sink whose target is a list in the world. A handle names staged rows."""

    def __init__(self, world: World, uid: str) -> None:
        self._world, self._target = world, world.targets[uid]
        self._vertex = next(f"{vertex.uid}/" for vertex in world.graph.vertices if uid in vertex.sinks)

    def stage(self, frame: object, request: StageRequest) -> Handle:
        raise NotImplementedError

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        new = [handle["id"] for handle in handles if handle["id"] not in self._target.handles]
        self._target.handles.update(new)
        self._target.rows.extend(row for path in new for row in self._world.rows[path])
        self._target.last_released = max(self._target.last_released, checkpoint)
        return {"rows": len(new)}

    def last_released(self) -> int:
        return self._target.last_released

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        """Delete the garbage, so that a release that needs it fails. Released rows no longer count as staged."""
        # tasks stage rows meanwhile
        staged = [path for path in list(self._world.rows) if path not in self._target.handles]
        garbage = [path for path in staged if path.startswith(self._vertex) and _attempt(path) not in live_attempts]
        removed = [path for path in garbage if path not in live_handles]
        for path in removed:
            del self._world.rows[path]
        return removed


class SyntheticTask:
    """A simulated task in a thread of its own.

    ``before_step``: called before each step. If it returns False, the task skips the step; if it raises, the task has
    crashed.
    """

    def __init__(
        self, runner: Runner, post: Callable[[TaskReport], None], before_step: Callable[[Runner], bool], seed: str
    ) -> None:
        self._runner, self._post, self._before_step = runner, post, before_step
        self._random = Random(seed)
        self._lock, self._wake = threading.RLock(), threading.Event()
        self._is_over = False
        self._seen = -1
        self._thread = threading.Thread(target=self._run, name=f"synthetic-{runner.subtask}", daemon=True)

    @property
    def subtask(self) -> SubtaskId:
        return self._runner.subtask

    @property
    def attempt(self) -> AttemptId:
        return self._runner.attempt

    def deploy(self, plan: VertexPlan) -> None:
        self._do(lambda: self._runner.deploy(plan))
        self._thread.start()

    def trigger(self, checkpoint: int) -> None:
        self._do(lambda: self._runner.put_barrier(checkpoint))

    def pause(self, reason: PauseReason) -> None:
        self._do(lambda: self._runner.pause(reason))

    def resume(self, plan: VertexPlan) -> None:
        self._do(lambda: self._runner.resume(plan))

    def prepare(self, trial: str, plan: VertexPlan) -> None:
        self._do(lambda: self._runner.prepare(trial, plan, fits=True))

    def drain(self, *, at_once: bool = False) -> None:
        self._do(self._runner.drain)

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        self._do(lambda: self._runner.assign(splits, is_last=is_last))

    def finish(self) -> None:
        self._do(self._runner.finish)
        self.stop()

    def pull_inputs(self) -> None:
        if self._thread.is_alive():
            self._do(self._runner.poll_barriers)

    def check(self) -> None:
        """Do nothing: the task reports its crashes itself."""

    def wait_for_batch(self, until: float) -> None:
        """Do nothing: a step is short."""

    def stop(self) -> None:
        self._is_over = True
        self._wake.set()

    def close(self) -> None:
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _do(self, work: Callable[[], object]) -> None:
        with self._lock:
            if not self._is_over:
                work()
            self._tell()
        self._wake.set()

    def _tell(self) -> None:
        """Post the pending reports. The caller holds the lock, so reports leave in order."""
        for message in self._runner.outbox:
            self._post(message)
        self._runner.outbox.clear()
        if self._runner.log.position != self._seen:
            self._seen = self._runner.log.position
            consumers = tuple(reader for reader, _ in readers(self._runner.world.graph, self.subtask))
            if consumers:
                self._post(DataAvailable(self._runner.epoch, self.subtask, self.attempt, consumers))

    def _run(self) -> None:
        try:
            while not self._is_over and self._runner.machine.phase is not TaskPhase.FINISHED:
                self._do(self._step)
                self._wake.clear()
                self._wake.wait(IDLE)
        except LogFencedError as error:
            world = (self._runner.epoch, self.subtask, self._runner.attempt)
            self._post(SubtaskFenced(*world, str(error), error.data["attempt"]))
        except Exception as error:
            world = (self._runner.epoch, self.subtask, self._runner.attempt)
            self._post(SubtaskFailed(*world, f"{type(error).__name__}: {error}"))

    def _step(self) -> None:
        if self._before_step(self._runner):
            self._runner.run(self._random)


class Journaled(OwnedJournal):
    """A journal that checks every event against the rules of the simulated world."""

    def __init__(self, journal: Journal, world: World, epoch: int) -> None:
        super().__init__(journal)
        self._world, self._epoch = world, epoch

    def write(self, event: Event) -> None:
        super().write(event)
        self._world.journal.append((self._epoch, event))
        self._world.check()


class Replacements(Restarts):
    """Restarts that can also replace tasks that have not failed."""

    def replaced(self, task: Task, epoch: int) -> None:
        """Announce that ``task`` takes the place of a running one. May be called from any thread."""
        self._created[task.subtask] = task
        self._post(SubtaskOpened(epoch, task.subtask, task.attempt))


@dataclass(frozen=True)
class _Run:
    epoch: int
    journal: OwnedJournal
    logs: dict[SubtaskId, SubtaskLog]
    before_step: Callable[[Runner], bool]
    inbox: Inbox
    restarts: Replacements


class SyntheticJob:
    """Several runs of one job.

    ``rows``: for each subtask the number of rows of its bounded sources. ``far_apart``: each task reads the other logs
    from the storage, as a task in another process would.
    """

    def __init__(
        self,
        graph: JobGraph,
        rows: Mapping[tuple[str, str], int],
        mode: RuntimeMode,
        *,
        name: str,
        seed: int,
        far_apart: bool,
        splits: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        self.world = World(graph, rows, name=name, aligned=False, splits=splits)
        self.graph, self._mode, self._seed, self._far_apart = graph, mode, seed, far_apart
        self._begins = threading.Lock()
        """Held while logs are opened, because garbage collection checks the fence of every log."""
        self._sinks: dict[str, BoundSink] = {
            uid: RowSink(self.world, uid) for vertex in graph.vertices for uid in vertex.sinks
        }

    def run(
        self,
        before_step: Callable[[Runner], bool] = lambda runner: True,
        slots: int = 4,
        parallelism: Mapping[str, int] | None = None,
        restarts: int = 0,
    ) -> Outcome:
        """Run the job.

        ``parallelism``: of each source with splits. ``restarts``: allowed for a failing subtask, in a row.
        """
        storage, inbox = self.world.storage, Inbox()
        replayed = Journal(storage, JOB)
        replayed.replay()
        taken = takeover.claim(replayed, "try", Worker())
        journal = Journaled(replayed, self.world, taken.epoch)
        declared = dict(parallelism or {})
        widths = {uid: subtasks_needed(journal.state, uid, declared[uid]) for uid in self.world.splits}
        wanted = {uid: readers_wanted(journal.state, uid, declared[uid]) for uid in widths}
        self.graph = self.graph.rescaled(widths)
        logs = load_logs(storage, JOB, self.graph)
        sources = {uid: SourceDefinition(True, parallelism=declared[uid]) for uid in widths}
        rescaled = {uid: readers for uid, readers in wanted.items() if readers != declared[uid]}
        definition = JobDefinition(self._mode, sources, {}, {})
        record_plan(journal, JOB, self.graph, definition, {}, {}, rescaled)
        attempts = open_logs(journal, logs, taken.epoch, self._mode, None)
        replacements = Replacements(self, inbox.put, new_nonce)
        self._now = _Run(taken.epoch, journal, logs, before_step, inbox, replacements)
        self._collect()
        state = journal.state
        tasks = {name: self._task(name, attempt, first_plan(state, name)) for name, attempt in attempts.items()}
        options = RunOptions(
            job="synthetic.py:job",
            root=storage.uri,
            job_id=JOB,
            checkpoint_interval=0.02,
            tolerable_failed_checkpoints=1000,
            restart_attempts=restarts,
            restart_delay=0.0,
            retained_checkpoints=1,
            overview_interval=0,
        )
        return job_master(
            JobIdentity(storage, JOB, taken.epoch, options),
            journal,
            LocalGateway(taken.epoch, tasks, _unexpected, replacements),
            StatusReporter(lambda line: None, JOB, None, "/r"),
            inbox,
            logs=logs,
            attempts=attempts,
            restored=restored(journal.state, self._splits(journal, logs, wanted)),
            sinks=self._sinks,
            slots=slots,
        ).run()

    def replace(self, before: Runner) -> AttemptId:
        """Replace a running subtask, which has not failed, by its next attempt. May be called from any thread.

        The JobMaster stops the previous attempt when it handles the replacement. Until then that attempt keeps running.
        """
        now, attempt = self._now, before.attempt.next(new_nonce())
        task = self.begin(before.subtask, attempt, before.told or before.made_for)
        assert task is not None
        now.restarts.replaced(task, now.epoch)
        return attempt

    def begin(self, subtask: SubtaskId, attempt: AttemptId, plan: VertexPlan) -> SyntheticTask | None:
        """Begin an attempt, see :class:`~airflow_provider_ckpt.task.restarts.TaskFactory`."""
        now = self._now
        if subtask not in now.logs:
            self.world.begins(now.epoch, subtask)
        log = SubtaskLog(self.world.storage, subtask_log_path(JOB, subtask.vertex, subtask.number))
        log.load()
        if log.state.closed:
            return None
        by_split = self.graph.vertex(subtask.vertex).splits
        with self._begins:
            log.open(attempt, continues_at(log, batch=self._mode == "batch", by_split=by_split))
            now.logs[subtask] = log
            self._collect()
        return self._task(subtask, attempt, plan)

    def rescale(self, uid: str, parallelism: int) -> str:
        """Write a rescale request as a client does, and return its name. May be called from any thread.

        The current run takes the request when it next polls, and answers under this name.
        """
        changes = {uid: VertexSettings(parallelism=parallelism)}
        return write_request(self.world.storage, JOB, ReconfigureRequest(changes, epoch=self._now.epoch)).name

    def failed(self, subtask: SubtaskId, attempt: AttemptId, error: BaseException) -> None:
        self._now.inbox.put(SubtaskFailed(self._now.epoch, subtask, attempt, f"{type(error).__name__}: {error}"))

    def log(self, subtask: SubtaskId) -> SubtaskLog:
        """Return the log of the subtask's current attempt."""
        return self._now.logs[subtask]

    def _collect(self) -> None:
        """Collect garbage, unless some subtasks of the graph have not begun."""
        now, graph = self._now, self._now.journal.graph()
        if now.logs.keys() >= set(graph.subtasks):
            collect_garbage(self.world.storage, JOB, graph, now.logs, self._sinks, now.epoch, now.journal.check_fenced)

    def _splits(
        self, journal: OwnedJournal, logs: Mapping[SubtaskId, LogReader], parallelism: Mapping[str, int]
    ) -> dict[str, RestoredSplits]:
        """Return the restored splits. ``parallelism``: source -> number of its readers."""
        lists = {uid: [Split(split, split) for split in splits] for uid, splits in self.world.splits.items()}
        return restored_splits(journal.state, self.graph, logs, lists, parallelism)

    def _task(self, subtask: SubtaskId, attempt: AttemptId, plan: VertexPlan) -> SyntheticTask:
        now = self._now
        kind: type[Runner] = StreamingRunner if self._mode == "streaming" else BatchRunner
        if self.graph.vertex(subtask.vertex).splits:
            kind = SplitRunner
        inputs: Callable[[SubtaskId], LogReader] = functools.partial(CurrentLog, now.logs)
        if self._far_apart:
            inputs = self._tail  # a task reads the other logs from the storage
        log = now.logs[subtask]
        runner = kind(self.world, self.graph, subtask, now.epoch, attempt, log, inputs, plan)
        return SyntheticTask(runner, self._post, now.before_step, f"{self._seed}/{subtask}/{attempt.epoch}")

    def _post(self, report: TaskReport) -> None:
        if isinstance(report, (SubtaskRunning, SubtaskAtEndOfData, SubtaskDone)):
            self.world.has_come(report.epoch, report.subtask)
        self._now.inbox.put(report)

    def _tail(self, subtask: SubtaskId) -> TailingLogReader:
        return TailingLogReader(self.world.storage, subtask_log_path(JOB, subtask.vertex, subtask.number))


def _unexpected(task: Task, error: BaseException) -> None:
    raise AssertionError(task.subtask) from error


def _attempt(path: str) -> str:
    """Return the attempt in a path ``<subtask>-<attempt>-<batch>-<number>``."""
    return path.partition("-")[2].rsplit("-", 2)[0]
