"""One driver process in the simulation: a coordinator, the runners, a releaser, their messages."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from airflow_provider_ckpt.coordinator import messages as m
from airflow_provider_ckpt.coordinator.coordinator import Coordinator
from airflow_provider_ckpt.coordinator.options import CheckpointOptions
from airflow_provider_ckpt.coordinator.state import Restored
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.partitions.codec import snapshot_from_json
from tests.simulation.runner import Runner
from tests.simulation.world import BrokenError, FencedError, World


class CrashError(Exception):
    """The driver dies here (a fault, as data)."""


def restored_from(world: World, never_started: frozenset[str]) -> Restored:
    """What a replay of the journal finds."""
    triggered = completed = released = 0
    unreleased: list[int] = []
    snapshots = {}
    ended: dict[str, set[str]] = {}
    dropped: dict[str, set[str]] = {}
    end_of_data: set[str] = set()
    finished: set[str] = set()
    draining = False
    for _, event in world.journal:
        if isinstance(event, ev.CheckpointTriggered):
            triggered = event.checkpoint
        elif isinstance(event, ev.CheckpointCompleted):
            completed = event.checkpoint
            unreleased.append(completed)
            snapshots = {name: snapshot_from_json(data) for name, data in event.subtasks.items()}
        elif isinstance(event, ev.CheckpointReleased):
            released = event.checkpoint
        elif isinstance(event, ev.SourceEnded):
            ended.setdefault(event.vertex, set()).add(event.uid)
        elif isinstance(event, ev.SourceDropped):
            dropped.setdefault(event.vertex, set()).add(event.uid)
        elif isinstance(event, ev.SubtaskEndOfData):
            end_of_data.add(event.subtask)
        elif isinstance(event, ev.SubtaskFinished):
            finished.add(event.subtask)
        elif isinstance(event, ev.RequestAnswered):
            draining = draining or (event.kind == "drain" and event.outcome == "accepted")
    return Restored(
        last_triggered=triggered,
        last_completed=completed,
        last_released=released,
        unreleased=tuple(n for n in unreleased if n > released),
        ended=ended,
        dropped=dropped,
        end_of_data=frozenset(end_of_data),
        finished=frozenset(finished),
        snapshots=snapshots,
        never_started=never_started,
        draining=draining,
    )


class Driver:
    """Take-over in steps (claim, open every log, start), so that an older driver acts in between.

    ``faulty``: whether answers get lost or repeated, releases fail, barriers are declined.
    """

    def __init__(
        self,
        world: World,
        random: Random,
        options: CheckpointOptions,
        coordinator: type[Coordinator],
        runner: type[Runner],
    ) -> None:
        self.world, self.random, self.options = world, random, options
        self.coordinator_type, self.runner_type = coordinator, runner
        self.faulty = True
        self.crash_in_effects = False
        self.dead = False
        self.over: str | None = None
        self.runners: dict[str, Runner] = {}
        self.late: list[str] = []
        self.coordinator: Coordinator | None = None
        self.releases: list[int] = []
        self.inbox: list[m.Message] = []
        self.asked: set[str] = set()
        """Requests that reached the coordinator."""
        self.epoch = world.claim()
        self.written = len(world.journal)
        self._starting = self._take_over()

    # -- start

    def _take_over(self) -> Iterator[None]:
        yield
        finished = {e.subtask for _, e in self.world.journal if isinstance(e, ev.SubtaskFinished)}
        for subtask in self.world.subtasks:
            if subtask in finished:
                continue
            if not self.world.logs[subtask] and self.random.random() < 0.3:
                self.late.append(subtask)
                continue
            self._open(subtask)
            yield
        restored = restored_from(self.world, frozenset(self.late))
        self.coordinator = self.coordinator_type(
            self.world.graph, self.options, epoch=self.epoch, restored=restored, now=self.world.now
        )
        self._carry_out(self.coordinator.start(self.world.now))

    def _open(self, subtask: str) -> None:
        vertex = subtask.split("/")[0]
        dropped = {e.uid for _, e in self.world.journal if isinstance(e, ev.SourceDropped) and e.vertex == vertex}
        batch = not self.options.periodic
        self.runners[subtask] = self.runner_type(self.world, subtask, self.epoch, dropped, batch=batch)

    # -- one step

    def step(self) -> None:
        """Something random that can happen in this process. A fenced driver dies of it."""
        try:
            self._step()
        except (FencedError, CrashError):
            self.dead = True

    def _step(self) -> None:
        if self.coordinator is None:
            next(self._starting, None)
            return
        choice = self.random.random()
        if self.late and choice < 0.03:
            self._open(self.late.pop())
        elif self.releases and choice < 0.15:
            self._release()
        elif choice < 0.55:
            self._deliver()
        elif self.runners:
            runner = self.random.choice(list(self.runners.values()))
            runner.poll_barriers() if self.random.random() < 0.4 else runner.run_batch(self.random)
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
        full = [runner.outbox for runner in self.runners.values() if runner.outbox]
        if self.inbox:
            full.append(self.inbox)
        if full:
            self.receive(self.random.choice(full).pop(0))

    def receive(self, message: m.Message) -> None:
        assert self.coordinator is not None
        answer = isinstance(message, (m.BarrierAcknowledged, m.BarrierDeclined))
        if self.faulty and answer and self.random.random() < 0.02:
            return
        if self.faulty and isinstance(message, m.BarrierAcknowledged) and self.random.random() < 0.02:
            message = m.BarrierDeclined(
                message.epoch, message.subtask, message.attempt, message.checkpoint, "IO_EXCEPTION"
            )
        times = 2 if self.faulty and self.random.random() < 0.1 else 1
        if isinstance(message, m.StopRequested) and message.request is not None and not self.coordinator.is_over:
            self.asked.add(message.request)
        for _ in range(times):
            self._carry_out(self.coordinator.handle(message, self.world.now))

    # -- effects

    def _append(self, event: ev.Event) -> None:
        if self.written != len(self.world.journal):
            raise FencedError
        self.world.journal.append((self.epoch, event))
        self.written += 1
        self.world.check()

    def _carry_out(self, effects: list[m.Effect]) -> None:
        for effect in effects:
            if self.crash_in_effects and self.random.random() < 0.3:
                raise CrashError
            self._effect(effect)

    def _effect(self, effect: m.Effect) -> None:
        match effect:
            case m.Append():
                self._append(effect.event)
            case m.TriggerBarrier():
                if not (self.faulty and self.random.random() < 0.02):
                    self.runners[effect.subtask].put_barrier(effect.checkpoint)
            case m.Release():
                if self.releases:
                    raise BrokenError("R9: two releases at once")
                self.releases.append(effect.checkpoint)
            case m.DropSource():
                self.runners[effect.subtask].stop_at_boundary(effect.uid)
            case m.ResumeWithout():
                self.runners[effect.subtask].resume_without(effect.uid)
            case m.DrainSubtask():
                self.runners[effect.subtask].drain()
            case m.FinishSubtask():
                self.runners[effect.subtask].finish()
            case m.EndJob():
                self.over, self.dead = effect.status, True
                self.world.check_answers(self.epoch, self.asked)
                if effect.status == "FAILED":
                    raise BrokenError(f"the job failed: {effect.cause}")

    def _release(self) -> None:
        """One sink; the answer once all have it."""
        checkpoint = self.releases[0]
        if self.faulty and self.random.random() < 0.05:
            self.releases.pop()
            self.inbox.append(m.ReleaseFailed(self.epoch, checkpoint, "the target does not answer"))
            return
        event = self.world.completed(checkpoint)
        if event is None:
            raise BrokenError(f"release of {checkpoint}, which is not completed")
        for vertex in self.world.graph.vertices:
            for sink in vertex.sinks:
                if self.world.targets[sink].last_released < checkpoint:
                    self._release_sink(vertex.uid, vertex.parallelism, sink, event)
                    return
        self.releases.pop()
        self.inbox.append(m.ReleaseDone(self.epoch, checkpoint, {}))

    def _release_sink(self, vertex: str, parallelism: int, sink: str, event: ev.CheckpointCompleted) -> None:
        target = self.world.targets[sink]
        for index in range(parallelism):
            name = f"{vertex}/{index}"
            snapshot = snapshot_from_json(event.subtasks[name])
            for number, rows in self.world.staged(name, sink, snapshot.position):
                if (name, number) not in target.handles:
                    target.handles.add((name, number))
                    target.rows.extend(rows)
        target.last_released = event.checkpoint
