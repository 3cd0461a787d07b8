"""A simulated driver process: a coordinator, the runners, a releaser, and their messages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from airflow_provider_ckpt.coordinator.coordinator import Coordinator
from airflow_provider_ckpt.coordinator.protocol.checkpoint_options import CheckpointOptions
from airflow_provider_ckpt.coordinator.protocol.commands import (
    AssignSplits,
    Command,
    DeploySubtask,
    DrainSubtask,
    FinishSubtask,
    PauseSubtask,
    PrepareReconfiguration,
    RestartSubtask,
    ResumeSubtask,
    TriggerBarrier,
)
from airflow_provider_ckpt.coordinator.protocol.effects import Append, Effect, EndJob, Release
from airflow_provider_ckpt.coordinator.protocol.messages import (
    Message,
    ReleaseDone,
    ReleaseFailed,
    ReleaseHeld,
)
from airflow_provider_ckpt.coordinator.protocol.reports import (
    BarrierAcknowledged,
    BarrierDeclined,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskFailed,
    SubtaskOpened,
    SubtaskRunning,
)
from airflow_provider_ckpt.errors import OvertakenError
from airflow_provider_ckpt.job.controller import Controller
from airflow_provider_ckpt.jobmaster.recovery.attempt_names import continues_at, first_attempts
from airflow_provider_ckpt.jobmaster.recovery.recovery_point import load_logs
from airflow_provider_ckpt.jobmaster.recovery.restored_state import first_plan, restored
from airflow_provider_ckpt.jobmaster.recovery.split_progress import readers_wanted, restored_splits, subtasks_needed
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.channel import readers
from airflow_provider_ckpt.model.definition import JobDefinition, SourceDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_request import JobRequest
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.subtasklog.errors import LogFencedError
from airflow_provider_ckpt.subtasklog.log_reader import CurrentLog
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.simulation.runner import BatchRunner, Runner, StreamingRunner
from tests.simulation.split_runner import SplitRunner
from tests.simulation.world import JOB, BrokenError, FencedError, World


class CrashError(Exception):
    """A fault that kills the driver."""


def replayed(world: World) -> JobState:
    """Return the job's state by a replay of the journal."""
    state = JobState(JOB)
    for _, event in world.journal:
        event.apply(state)
    return state


@dataclass(frozen=True)
class Planned:
    """The plan of a driver that has claimed the job. ``readers``: for each source with splits."""

    graph: JobGraph
    readers: dict[str, int]
    event: ev.PlanRecorded


def planned(world: World, mode: str, random: Random) -> Planned:
    """Plan the job. Some drivers declare another parallelism than the previous one.

    The others keep the parallelism that was requested during the previous run.
    """
    state = replayed(world)
    graph = world.graph if state.plan is None else state.graph()
    sources, widths, wanted, rescaled = {}, {}, {}, {}
    for uid in world.splits:
        before = graph.vertex(uid).parallelism
        declared = before if state.definition is None else state.definition.sources[uid].parallelism or before
        pointwise = any(edge.exchange == "pointwise" for edge in graph.outputs(uid))
        if state.definition is not None and not pointwise and random.random() < 0.3:
            declared = random.randint(1, 4)
        sources[uid] = SourceDefinition(True, parallelism=declared)
        widths[uid], wanted[uid] = subtasks_needed(state, uid, declared), readers_wanted(state, uid, declared)
        if wanted[uid] != declared:
            rescaled[uid] = wanted[uid]
        if pointwise:
            wanted[uid] = random.randint(1, before)
    graph = graph.rescaled(widths)
    definition = JobDefinition("batch" if mode == "batch" else "streaming", sources, {}, {})
    event = ev.PlanRecorded(graph, {}, world.now, definition, rescaled, state.settings)
    return Planned(graph, wanted, event)


class Driver:
    """A simulated driver.

    It takes over in steps (claim, open every log, start), so that an older driver may act in between. ``faulty``:
    answers get lost or repeated, releases fail, barriers are declined.
    """

    def __init__(
        self,
        world: World,
        random: Random,
        options: CheckpointOptions,
        coordinator: type[Coordinator],
        streaming: type[StreamingRunner],
        controllers: Sequence[Controller] = (),
    ) -> None:
        self.world, self.random, self.options = world, random, options
        self.coordinator_type, self.controllers = coordinator, controllers
        self.runner_type: type[Runner] = BatchRunner if options.is_batch else streaming
        self.slots = random.choice((1, 2, 100))
        self.faulty = True
        self.replaces = True
        """True: running subtasks are replaced by their next attempts."""
        self.crash_in_effects = False
        self.dead = False
        self.over: str | None = None
        self.runners: dict[SubtaskId, Runner] = {}
        self.late: list[SubtaskId] = []
        self.coordinator: Coordinator | None = None
        self.releases: dict[str, int] = {}
        """Releases in progress: sink -> checkpoint."""
        self.inbox: list[Message] = []
        self.requests: set[str] = set()
        """Requests that have reached the coordinator."""
        self.epoch = world.claim()
        self.plan = planned(world, options.mode, random)
        self.graph = self.plan.graph
        """The graph at the beginning of the epoch."""
        self.attempts = first_attempts(self.epoch, self.graph.subtasks)
        self.logs: dict[SubtaskId, SubtaskLog] = {}
        self.replaced: list[Runner] = []
        """Runners of attempts that a later attempt of this epoch has fenced. They continue as long as they can."""
        self.restarting: dict[SubtaskId, RestartSubtask] = {}
        """Failed subtasks whose next attempts are about to begin."""
        self.plans: dict[str, VertexPlan] = {}
        """Plans of subtasks that should be deployed but are not opened."""
        self.written = len(world.journal)
        self.waiting: list[ev.Event] = []
        """Events that decide nothing and are not yet in the journal. They are lost when the driver dies."""
        self._starting = self._take_over()

    # -- start

    def _take_over(self) -> Iterator[None]:
        yield
        self._append(self.plan.event)
        self.logs.update(load_logs(self.world.storage, JOB, self.graph))
        finished = replayed(self.world).finished
        for subtask, log in self.logs.items():
            by_split = self.graph.vertex(subtask.vertex).splits
            if not self.options.is_batch and not by_split and not log.position and self.random.random() < 0.3:
                self.late.append(subtask)
                continue
            self._open(subtask)
            if log.state.closed and subtask not in finished:  # the log's tail decides (R11)
                self._append(ev.SubtaskFinished(subtask, str(self.attempts[subtask]), self.world.now))
            yield
        for subtask in [name for name in self.logs if name not in self.late]:
            self._make(subtask)  # after every log is opened, because runners read the previous driver's entries
        state = replayed(self.world)
        lists = {uid: [Split(split, split) for split in splits] for uid, splits in self.world.splits.items()}
        splits = restored_splits(state, self.graph, self.logs, lists, self.plan.readers)
        self.coordinator = self.coordinator_type(
            self.graph,
            self.options,
            epoch=self.epoch,
            restored=restored(state, splits),
            attempts=self.attempts,
            slots=self.slots,
            controllers=self.controllers,
        )
        self._carry_out(self.coordinator.start(self.world.now))

    def _open(self, subtask: SubtaskId) -> None:
        log = self.logs[subtask]
        if not log.state.closed:
            log.open(self.attempts[subtask], self._continues_at(subtask, log), unless_closed=True)

    def _continues_at(self, subtask: SubtaskId, log: SubtaskLog) -> int | None:
        by_split = self.graph.vertex(subtask.vertex).splits
        return continues_at(log, batch=self.options.is_batch, by_split=by_split)

    def _replace(self, subtask: SubtaskId) -> None:
        """Simulate a task that hangs: its next attempt opens the log.

        Its report comes after the messages in the inbox. Until then the coordinator works with the previous
        attempt.
        """
        before = self.runners[subtask]
        has_failed = any(isinstance(message, SubtaskFailed) for message in before.outbox)
        attempt = before.attempt.next(f"r{len(self.replaced)}")
        if not has_failed and self._begin_next(subtask, attempt, before.told or before.made_for):
            self.replaced.append(before)
            self.runners[subtask].outbox.append(SubtaskOpened(self.epoch, subtask, attempt))

    def _begin_next(self, subtask: SubtaskId, attempt: AttemptId, plan: VertexPlan) -> bool:
        """Begin the next attempt. Return False if the log is closed and nothing is left to do."""
        log = SubtaskLog(self.world.storage, subtask_log_path(JOB, subtask.vertex, subtask.number))
        log.load()
        if log.state.closed:
            return False
        if log.open(attempt, self._continues_at(subtask, log), unless_closed=True).closed:
            return False
        self.logs[subtask], self.attempts[subtask] = log, attempt
        self._make(subtask, plan)
        return True

    def _fail(self, subtask: SubtaskId) -> None:
        """Report a failure. The runner may continue until it is stopped or fenced."""
        runner = self.runners[subtask]
        if not any(isinstance(message, SubtaskOpened) for message in runner.outbox):
            runner.outbox.append(SubtaskFailed(self.epoch, subtask, runner.attempt, "boom"))

    def _restart(self, command: RestartSubtask) -> None:
        """Restart the subtask as the gateway does. The previous attempt may continue for a while."""
        if command.attempt == AttemptId.vacant(self.epoch):
            self._check_start(command.subtask)
        before = self.runners.pop(command.subtask, None)
        if before is not None:
            self.replaced.append(before)
        self.restarting[command.subtask] = command

    def _check_start(self, subtask: SubtaskId) -> None:
        """Check that every reader of a new subtask knows it before it begins (R21)."""
        self.world.begins(self.epoch, subtask)
        for consumer, _ in readers(self.world.graph, subtask):
            runner = self.runners.get(consumer)
            if runner is not None and runner.log.state.end_of_data is not None:
                continue
            plan = self.plans.get(consumer) if runner is None else runner.told
            if plan is not None and plan.parallelism.get(subtask.vertex, 0) <= subtask.number:
                raise BrokenError(f"R21: {subtask} begins, and {consumer} does not know it")

    def _start_again(self, subtask: SubtaskId) -> None:
        command = self.restarting.pop(subtask)
        attempt = command.attempt.next(f"n{len(self.replaced)}")
        world = (self.epoch, subtask, attempt)
        if self.faulty and self.random.random() < 0.2:
            self.inbox.append(SubtaskFailed(*world, "the log cannot be opened"))
        elif self._begin_next(subtask, attempt, command.plan):
            self.runners[subtask].outbox.append(SubtaskOpened(*world))
        else:
            self.inbox += [SubtaskOpened(*world), SubtaskDone(*world)]

    def _send(self, command: Command, work: Callable[[Runner], None]) -> None:
        """Send the command to the attempt that it names, as the gateway does. A fenced attempt stays silent."""
        for runner in (self.runners.get(command.subtask), *self.replaced):
            if runner is not None and (runner.subtask, runner.attempt) == (command.subtask, command.attempt):
                self._apply(runner, work)
                return

    def _apply(self, runner: Runner, work: Callable[[Runner], None]) -> None:
        try:
            work(runner)
        except LogFencedError:
            if runner not in self.replaced:
                raise
            self.replaced.remove(runner)

    def _deploy(self, command: DeploySubtask) -> None:
        """Deploy the subtask, or keep the plan if its log is opened later."""
        if command.subtask in self.late:
            self.plans[command.subtask] = command.plan
        else:
            self._send(command, lambda runner: runner.deploy(command.plan))

    def _make(self, subtask: SubtaskId, plan: VertexPlan | None = None) -> None:
        """Create the runner. ``plan``: None stands for the plan of a first attempt."""
        if self.logs[subtask].state.closed:
            return
        plan = plan or first_plan(replayed(self.world), subtask)
        log, attempt = self.logs[subtask], self.attempts[subtask]
        kind = SplitRunner if self.graph.vertex(subtask.vertex).splits else self.runner_type
        inputs = functools.partial(CurrentLog, self.logs)
        self.runners[subtask] = kind(self.world, self.graph, subtask, self.epoch, attempt, log, inputs, plan)

    # -- one step

    def step(self) -> None:
        """Take one random step of this process. A fenced driver dies in it."""
        try:
            self._step()
        except (FencedError, OvertakenError, CrashError):
            self.dead = True

    def _step(self) -> None:
        if self.coordinator is None:
            next(self._starting, None)
            return
        if self.waiting and self.random.random() < 0.2:
            self._flush()
        if self.restarting and self.random.random() < 0.1:
            self._start_again(self.random.choice(list(self.restarting)))
        choice = self.random.random()
        if self.late and choice < 0.03:
            late = self.late.pop()
            self._open(late)
            self._make(late)
            self.runners[late].deploy(self.plans.pop(late))
        elif self.releases and choice < 0.15:
            self._release()
        elif choice < 0.55:
            self._deliver()
        elif self.runners:
            if self.faulty and self.random.random() < 0.01:
                self._fail(self.random.choice(list(self.runners)))
            if self.replaces and self.random.random() < 0.04:
                self._replace(self.random.choice(list(self.runners)))
            runner = self.random.choice([*self.runners.values(), *self.replaced])
            polls = self.random.random() < 0.4
            self._apply(runner, lambda target: target.poll_barriers() if polls else target.run(self.random))
        self.tick()

    def tick(self) -> None:
        if self.coordinator is None:
            return
        now = self.world.now
        deadline = self.coordinator.next_deadline(now)
        if deadline is not None and deadline <= now:
            self._carry_out(self.coordinator.tick(now))
            after = self.coordinator.next_deadline(now)
            if after is not None and after <= now:
                raise BrokenError(f"a tick at {now} leaves something due at {after}")

    def _deliver(self) -> None:
        full: list[list[Any]] = [runner.outbox for runner in (*self.runners.values(), *self.replaced) if runner.outbox]
        if self.inbox:
            full.append(self.inbox)
        if full:
            self.receive(self.random.choice(full).pop(0))

    def receive(self, message: Message) -> None:
        assert self.coordinator is not None
        answer = isinstance(message, (BarrierAcknowledged, BarrierDeclined))
        if self.faulty and answer and self.random.random() < 0.02:
            return
        if self.faulty and isinstance(message, BarrierAcknowledged) and self.random.random() < 0.02:
            message = BarrierDeclined(
                message.epoch, message.subtask, message.attempt, message.checkpoint, "IO_EXCEPTION"
            )
        times = 2 if self.faulty and self.random.random() < 0.1 else 1
        asks = message.name if isinstance(message, JobRequest) else ""
        if asks and not self.coordinator.is_over:
            self.requests.add(asks)
        if isinstance(message, (SubtaskRunning, SubtaskAtEndOfData, SubtaskDone)):
            self.world.has_come(message.epoch, message.subtask)
        for _ in range(times):
            self._carry_out(self.coordinator.handle(message, self.world.now))

    # -- effects

    def _append(self, event: ev.Event) -> None:
        self.waiting.append(event)
        if event.decides:
            self._flush()

    def _flush(self) -> None:
        if self.written != len(self.world.journal):
            raise FencedError
        self.world.journal += [(self.epoch, event) for event in self.waiting]
        self.written += len(self.waiting)
        self.waiting.clear()
        self.world.check()

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if self.crash_in_effects and self.random.random() < 0.3:
                raise CrashError
            self._effect(effect)

    def _effect(self, effect: Effect) -> None:
        match effect:
            case Append():
                self._append(effect.event)
            case DeploySubtask():
                self._deploy(effect)
            case TriggerBarrier():
                if not (self.faulty and self.random.random() < 0.02):
                    self._send(effect, lambda runner: runner.put_barrier(effect.checkpoint))
            case Release():
                if effect.sink in self.releases:
                    raise BrokenError(f"R9: two releases of {effect.sink} at once")
                self.releases[effect.sink] = effect.checkpoint
            case PauseSubtask():
                self._send(effect, lambda runner: runner.pause(effect.reason))
            case PrepareReconfiguration():
                fits = not self.faulty or self.random.random() < 0.9
                self._send(effect, lambda runner: runner.prepare(effect.trial, effect.plan, fits=fits))
            case ResumeSubtask():
                self._send(effect, lambda runner: runner.resume(effect.plan))
            case DrainSubtask():
                self._send(effect, lambda runner: runner.drain())
            case RestartSubtask():
                self._restart(effect)
            case AssignSplits():
                self._send(effect, lambda runner: runner.assign(effect.splits, is_last=effect.is_last))
            case FinishSubtask():
                self._send(effect, lambda runner: runner.finish())
            case EndJob():
                self.over, self.dead = effect.status, True
                self.world.check_answers(self.epoch, self.requests)
                if effect.status == "FAILED":
                    raise BrokenError(f"the job failed: {effect.cause}")

    def _release(self) -> None:
        """Carry out a random pending release. A sink releases in one step, completely or not at all."""
        sink = self.random.choice(sorted(self.releases))
        checkpoint = self.releases.pop(sink)
        if self.faulty and self.random.random() < 0.05:
            self.inbox.append(ReleaseFailed(self.epoch, checkpoint, sink, "the target does not answer"))
            return
        event = self.world.completed(checkpoint)
        if event is None:
            raise BrokenError(f"release of {checkpoint}, which is not completed")
        if sink in self.world.held and self.faulty:
            self.inbox.append(ReleaseHeld(self.epoch, checkpoint, sink, sink))
            return
        for vertex in self.world.graph.vertices:
            if sink in vertex.sinks and self.world.targets[sink].last_released < checkpoint:
                self._release_sink(vertex, sink, event)
        self.inbox.append(ReleaseDone(self.epoch, checkpoint, sink, {"rows": 1}))

    def _release_sink(self, vertex: JobVertex, sink: str, event: ev.CheckpointCompleted) -> None:
        """Release a sink. Only subtasks in the checkpoint count, because the job may have more of them now."""
        target = self.world.targets[sink]
        for name in [subtask for subtask in vertex.subtasks if subtask in event.subtasks]:
            for path, rows in self.world.staged(name, sink, event.subtasks[name].position):
                if path not in target.handles:
                    target.handles.add(path)
                    target.rows.extend(rows)
        target.last_released = event.checkpoint
