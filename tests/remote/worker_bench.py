"""Test bench of one worker, with its gateway and a sequence of JobMasters. Tests post the tasks' reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from airflow_provider_ckpt.coordinator.protocol import commands as cm
from airflow_provider_ckpt.coordinator.protocol import reports as rp
from airflow_provider_ckpt.journal.events import DeploymentPrepared, EpochClaimed, Event
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.pause_reason import DropSource
from airflow_provider_ckpt.model.progress import BatchProgress
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.worker import Worker as Place
from airflow_provider_ckpt.remote.mailbox import Mailbox, Message, master_name
from airflow_provider_ckpt.remote.worker import Worker
from airflow_provider_ckpt.remote.worker_part import WorkerPart
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.errors import LogFencedError
from tests.remote.cluster import FakeClock
from tests.remote.process import NoWait

V = SubtaskId("v/0")
FIRST, SECOND, THIRD = (AttemptId(1, number, f"n{number}") for number in (1, 2, 3))
WORLD = (1, V, FIRST)
PLAN, DROPPED = VertexPlan(0, ()), VertexPlan(0, ("h",))
PAUSED = rp.SubtaskPaused(*WORLD, DropSource("h"), 4)
RUNNING, AT_END, DONE = rp.SubtaskRunning(*WORLD), rp.SubtaskAtEndOfData(*WORLD), rp.SubtaskDone(*WORLD)
FAILED = rp.SubtaskFailed(*WORLD, "boom")
MEASURED = rp.QueryMeasured(*WORLD, BatchProgress(batch_id=1, duration=1.0, interval=1.0, rows=5))
OPENED = rp.SubtaskOpened(*WORLD)
DEPLOY = cm.DeploySubtask(*WORLD, PLAN)
PAUSE = cm.PauseSubtask(*WORLD, DropSource("h"))


class CommandRecorder:
    """Gateway that records the commands it gets."""

    def __init__(self) -> None:
        self.sent: list[cm.Command] = []
        self.stopped: bool | None = None

    def start(self) -> None: ...
    def send(self, *commands: cm.Command) -> None:
        self.sent += commands

    def on_restarted(self, subtask: SubtaskId, attempt: AttemptId) -> None: ...
    def pull_inputs(self, consumers: Iterable[SubtaskId]) -> None: ...
    def poll_changes(self) -> None: ...
    def stop(self, *, after_batch: bool) -> None:
        self.stopped = after_batch


class WorkerBench:
    """One worker of deployment 1 and its JobMasters; ``master`` is the current one."""

    def __init__(
        self, folder: Path, *, by_split: bool = False, restarts: bool = True, reads: Mapping[str, int] | None = None
    ) -> None:
        """Create the bench. ``reads``: source with splits that v reads → number of its subtasks."""
        self.storage, self.clock, self.gateway = open_storage(folder), FakeClock(), CommandRecorder()
        self.state = JobState("job")
        self.fenced_by: AttemptId | None = None
        self.journaled(DeploymentPrepared(1, 1.0))
        split = frozenset({"v"} if by_split else ())
        feeds, plan = {"v": frozenset(reads or ())}, replace(PLAN, parallelism=dict(reads or {}))
        part = WorkerPart(1, {V: AttemptId.first(1, "n0")}, {V: plan}, split, restarts, feeds)
        self.outbox_of_worker = self._correspondence("worker-w")
        self.worker = Worker(
            "job",
            part,
            self.outbox_of_worker,
            lambda: self.state,
            self._check_owned,
            lambda part, state: part.with_added_subtasks(self.storage, state),
            poll_interval=0.1,
            silence=20.0,
            make_nonce=lambda: "n9",
            clock=self.clock,
        )
        self.worker._reports = NoWait()
        self.worker._begin(self.gateway)
        self.epoch = 1

    def _correspondence(self, name: str) -> Mailbox:
        return Mailbox(self.storage, "job", 1, name, Place(name), self.clock)

    def _check_owned(self) -> None:
        if self.fenced_by is not None:
            raise LogFencedError(log="log", attempt=self.fenced_by, epoch=self.fenced_by.epoch)

    def journaled(self, *events: Event) -> None:
        for event in events:
            event.apply(self.state)

    def claim(self) -> list[Message]:
        """Let another JobMaster claim the job. Return the first messages that it gets from the worker."""
        self.epoch += 1
        self.journaled(EpochClaimed(self.epoch, "t", Place("m"), 1.0, deployment=1))
        self.master = self._correspondence(master_name(self.epoch))
        return self.turn()

    def turn(self, *messages: Message) -> list[Message]:
        """Pass these messages to the worker: reports from its tasks, commands from the JobMaster.

        Return what the worker posts.
        """
        for message in messages:
            if isinstance(message, rp.TaskReport):
                self.worker.post(message)
            else:
                self.master.post(self.outbox_of_worker.name, message)
        if self.epoch > 1:
            self.master.deliver()
        self.clock.now += 1.0
        self.worker._step(self.gateway)
        return self.master.receive(self.outbox_of_worker.name)[1] if self.epoch > 1 else []

    def sent_commands(self) -> list[cm.Command]:
        """Return the commands to the tasks since the last call."""
        commands, self.gateway.sent = self.gateway.sent, []
        return commands
