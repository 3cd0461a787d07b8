"""Test harness of the coordinator, with short ways to send messages and to read the effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from airflow_provider_ckpt.coordinator.coordinator import Coordinator
from airflow_provider_ckpt.coordinator.protocol.checkpoint_failures import DeclineReason
from airflow_provider_ckpt.coordinator.protocol.checkpoint_options import CheckpointOptions
from airflow_provider_ckpt.coordinator.protocol.commands import ResumeSubtask
from airflow_provider_ckpt.coordinator.protocol.effects import Append, Effect
from airflow_provider_ckpt.coordinator.protocol.messages import (
    Message,
    ReleaseDone,
    ReleaseFailed,
    ReleaseHeld,
)
from airflow_provider_ckpt.coordinator.protocol.reports import (
    BarrierAcknowledged,
    BarrierDeclined,
    ReconfigurationPrepared,
    SourceAtEnd,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskFailed,
    SubtaskOpened,
    SubtaskPaused,
    SubtaskRunning,
)
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.job.controller import Controller
from airflow_provider_ckpt.journal.events import Event, GraphChange, Reconfigured, RequestAnswered
from airflow_provider_ckpt.model.graph import Exchange, JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_request import DrainRequest, ReconfigureRequest, StopRequest
from airflow_provider_ckpt.model.pause_reason import PauseReason
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.model.vertex_settings import VertexSettings

E = TypeVar("E")
A = AttemptId(1, 0, "a")
SRC0, MID0, V0 = SubtaskId("src/0"), SubtaskId("mid/0"), SubtaskId("v/0")
"""First attempt of every subtask, in epoch 1."""


def vertex(uid: str, *, sources: str = "", bounded: str = "", sinks: str = "", parallelism: int = 1) -> JobVertex:
    """Return a vertex. Sources and sinks are words in a text; ``bounded`` names the bounded sources."""
    owns = tuple(sources.split())
    operators = owns if uid in owns else (*owns, uid)
    return JobVertex(
        uid,
        operators,
        owns,
        tuple(bounded.split()),
        tuple(sinks.split()),
        set(owns) == set(bounded.split()),
        parallelism,
    )


def graph(*vertices: JobVertex, edges: str = "", kind: Exchange = "all_to_all") -> JobGraph:
    """Return a graph. Edges are written "a>b b>c"; the edge from a to b has the uid "a_b"."""
    made = []
    for pair in edges.split():
        producer, consumer = pair.split(">")
        made.append(JobEdge(f"{producer}_{consumer}", producer, consumer, consumer, kind))
    return JobGraph(vertices, tuple(made))


ONE = graph(vertex("v", sources="live", sinks="sink"))
"""Query with one unbounded source and one sink."""
CHAIN = graph(
    vertex("src", sources="src", bounded="src"),
    vertex("mid", sources="live", sinks="sink"),
    edges="src>mid",
)
"""Bounded vertex without a sink before an unbounded one with a sink."""


class Harness:
    """Coordinator whose calls each return their effects, and also collect them in ``effects``."""

    def __init__(
        self,
        of: JobGraph = ONE,
        *,
        epoch: int = 1,
        restored: RestoredState | None = None,
        running: bool = True,
        slots: int = 1,
        has_workers: bool = False,
        deployment: int | None = None,
        controllers: Sequence[Controller] = (),
        **options: Any,
    ) -> None:
        options.setdefault("interval", 10.0)
        self.now = 0.0
        self.epoch = epoch
        self.effects: list[Effect] = []
        self.position = 0
        self.attempts: dict[SubtaskId, AttemptId] = dict.fromkeys(of.subtasks, AttemptId(deployment or epoch, 0, "a"))
        """Current attempts. Their epoch is ``deployment`` if it is given, and the coordinator's otherwise."""
        self.c = Coordinator(
            of,
            CheckpointOptions(**options),
            epoch=epoch,
            restored=restored or RestoredState(),
            attempts=self.attempts,
            slots=slots,
            has_workers=has_workers,
            controllers=controllers,
        )
        self._keep(self.c.start(0.0))
        if running:
            for name, status in self.c.subtask_statuses().items():
                if status.value == "starting":
                    self.running(name)

    def _keep(self, effects: list[Effect]) -> list[Effect]:
        self.effects += effects
        return effects

    def handle(self, message: Message) -> list[Effect]:
        return self._keep(self.c.handle(message, self.now))

    def at(self, now: float) -> list[Effect]:
        self.now = now
        return self._keep(self.c.tick(now))

    def world(self, subtask: str, attempt: AttemptId | None = None) -> dict[str, Any]:
        """Return the identity fields of a report; ``attempt`` defaults to the subtask's current one."""
        name = SubtaskId(subtask)
        return {"epoch": self.epoch, "subtask": name, "attempt": attempt or self.attempts[name]}

    def trial(self, number: int = 1) -> str:
        """Return the name under which subtasks try the queries of this reconfiguration."""
        return f"{self.epoch}.{number}"

    def next_attempt(self, subtask: str = "v/0") -> list[Effect]:
        """Report that the subtask's next attempt has opened its log."""
        name = SubtaskId(subtask)
        self.attempts[name] = self.attempts[name].next("b")
        return self.handle(SubtaskOpened(**self.world(subtask)))

    def running(self, subtask: str = "v/0", attempt: AttemptId | None = None, plan: int | None = None) -> list[Effect]:
        """Report the subtask as running. ``plan`` defaults to the number of the last plan it was sent."""
        plans = [0, *(e.plan.number for e in only(ResumeSubtask, self.effects) if e.subtask == subtask)]
        return self.handle(SubtaskRunning(**self.world(subtask, attempt), plan=plans[-1] if plan is None else plan))

    def ack(self, subtask: str = "v/0", checkpoint: int | None = None, **snapshot: Any) -> list[Effect]:
        self.position += 1
        snapshot.setdefault("position", self.position)
        of = self.c.last_triggered if checkpoint is None else checkpoint
        made = Snapshot(batch_id=1, **snapshot)
        return self.handle(BarrierAcknowledged(**self.world(subtask), checkpoint=of, snapshot=made))

    def decline(self, reason: DeclineReason, subtask: str = "v/0") -> list[Effect]:
        of = self.c.last_triggered
        return self.handle(BarrierDeclined(**self.world(subtask), checkpoint=of, reason=reason))

    def paused(self, subtask: str, reason: PauseReason) -> list[Effect]:
        return self.handle(SubtaskPaused(**self.world(subtask), reason=reason, batch_id=3))

    def prepared(self, subtask: str, number: int = 1) -> list[Effect]:
        """Report that the subtask's query fits reconfiguration ``number``."""
        return self.handle(ReconfigurationPrepared(**self.world(subtask), trial=self.trial(number)))

    def released(self, checkpoint: int | None = None, sink: str | None = None) -> list[Effect]:
        """Report a release as done: in ``sink``, or in each sink that is releasing, or else in the only sink."""
        at_work = [sink] if sink else list(self.c.releasing) or ["sink"]
        effects: list[Effect] = []
        for name in at_work:
            of = self.c.releasing.get(name, 0) if checkpoint is None else checkpoint
            effects += self.handle(ReleaseDone(self.epoch, of, name, {"rows": 1}))
        return effects

    def release_failed(self, sink: str = "sink", *, terminal: bool = False) -> list[Effect]:
        return self.handle(ReleaseFailed(self.epoch, self.c.releasing.get(sink, 0), sink, "no answer", terminal))

    def held(self, sink: str = "sink", gate_of: str | None = None) -> list[Effect]:
        return self.handle(ReleaseHeld(self.epoch, self.c.releasing.get(sink, 0), sink, gate_of or sink))

    def end_of_data(self, subtask: str = "v/0") -> list[Effect]:
        return self.handle(SubtaskAtEndOfData(**self.world(subtask)))

    def done(self, subtask: str = "v/0") -> list[Effect]:
        return self.handle(SubtaskDone(**self.world(subtask)))

    def source_at_end(self, uid: str, subtask: str = "v/0", **more: Any) -> list[Effect]:
        return self.handle(SourceAtEnd(**self.world(subtask), uid=uid, batch_id=3, **more))

    def request(
        self,
        mode: Literal["stop", "drain"],
        name: str | None = None,
        *,
        exit_if_it_fails: bool = False,
        at_once: bool = False,
    ) -> list[Effect]:
        about: Any = {"name": name or ""}
        return self.handle(StopRequest(exit_if_it_fails, **about) if mode == "stop" else DrainRequest(at_once, **about))

    def fail(self, subtask: str = "v/0", cause: str = "boom", *, terminal: bool = False) -> list[Effect]:
        return self.handle(SubtaskFailed(**self.world(subtask), cause=cause, terminal=terminal))

    def answers(self, request: str) -> list[str]:
        return [str(event.outcome) for event in events(RequestAnswered, self.effects) if event.request == request]


def only(kind: type[E], effects: list[Effect]) -> list[E]:
    return [effect for effect in effects if isinstance(effect, kind)]


def events(kind: type[E], effects: list[Effect]) -> list[E]:
    journaled: list[Event] = [effect.event for effect in effects if isinstance(effect, Append)]
    return [event for event in journaled if isinstance(event, kind)]


def rescale_requested(uid: str, parallelism: int, request: str | None = None) -> ReconfigureRequest:
    """Return the request to read the remaining splits of a source with ``parallelism`` subtasks."""
    return ReconfigureRequest({uid: VertexSettings(parallelism=parallelism)}, name=request or "")


def graph_changes(effects: list[Effect]) -> list[GraphChange]:
    """Return the changes of the graph that the effects journal."""
    return [change for event in events(Reconfigured, effects) if (change := event.graph) is not None]


def outcomes(effects: list[Effect]) -> list[str]:
    """Return the outcomes of the requests that are answered."""
    return [str(answer.outcome) for answer in events(RequestAnswered, effects)]


def names(effects: list[Effect]) -> list[str]:
    """Return the type names in order. An Append counts as the type of its event."""
    return [type(e.event if isinstance(e, Append) else e).__name__ for e in effects]
