"""Reasons to pause: a new reason needs one class besides that for dropped sources, and both change the same plan."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider_ckpt.coordinator.state.ended_sources import EndedSources
from airflow_provider_ckpt.coordinator.state.pauses import Pause, Pauses, PlanChanges
from airflow_provider_ckpt.coordinator.state.running_graph import RunningGraph
from airflow_provider_ckpt.journal.events import Event, SourceDropped
from airflow_provider_ckpt.model.pause_reason import DropSource, PauseReason
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from tests.coordinator.harness import V0, graph, vertex

HISTORY = Pause(V0, DropSource("history"))


@dataclass(frozen=True)
class Mark(PauseReason):
    """Pause reason that the package does not have."""

    text: str


AGAIN = Pause(V0, Mark("changed"))


class MarkChanges(PlanChanges[Mark]):
    """Plan change that pauses ``v/0`` once and then marks the plan."""

    def __init__(self) -> None:
        self.waiting, self.is_done = [AGAIN], False

    def wanted(self) -> list[tuple[Pause[Mark]]]:
        return [(pause,) for pause in self.waiting]

    def note_requested(self, pause: Pause[Mark]) -> None:
        self.waiting.remove(pause)

    def attempt_began(self, subtask: str, unreached: Pause[Mark] | None) -> None:
        self.waiting += [unreached] if unreached is not None else []

    def change(self, pause: Pause[Mark], batch_id: int, now: float) -> Event | None:
        self.is_done = True
        return SourceDropped("v", pause.reason.text, batch_id, now)

    def amended(self, plan: VertexPlan, subtask: str) -> VertexPlan:
        return replace(plan, dropped=(*plan.dropped, "changed")) if self.is_done else plan


def two_kinds() -> tuple[Pauses, MarkChanges]:
    running = RunningGraph(graph(vertex("v", sources="history live", bounded="history")))
    sources = EndedSources(running, {}, {})
    sources.report(V0, "history", 3, droppable=True)
    marks = MarkChanges()
    return Pauses([sources, marks]), marks


def test_each_kind_of_pause_changes_the_plan_once() -> None:
    pauses, marks = two_kinds()
    (first, sources), (second, by) = pauses.wanted()
    assert (first, second, by) == ((HISTORY,), (AGAIN,), marks)
    assert pauses.plan(V0) == VertexPlan(0, ())

    pauses.begin(first, sources)
    on = pauses.paused_at(V0, 3, 1.0)
    assert [type(event) for event in on.events] == [SourceDropped]
    assert on.subtasks == (V0,)
    assert pauses.plan(V0) == VertexPlan(1, ("history",))
    pauses.end_pause(V0, 1.5)

    pauses.begin(second, by)
    assert pauses.paused_at(V0, 4, 2.0).events == (SourceDropped("v", "changed", 4, 2.0),)
    assert pauses.plan(V0) == VertexPlan(2, ("history", "changed"))
    assert not pauses.wanted()


def test_a_pause_that_a_new_attempt_did_not_get_is_wanted_again() -> None:
    pauses, marks = two_kinds()
    pauses.begin((AGAIN,), marks)
    pauses.attempt_began(V0, 1.0)
    assert not pauses.current
    assert [wanted for wanted, _ in pauses.wanted()] == [(HISTORY,), (AGAIN,)]
    assert pauses.plan(V0) == VertexPlan(0, ())
