"""The order of the phases in which the coordinator carries out a step."""

from __future__ import annotations

from tests.coordinator.harness import Harness, graph, vertex


def test_a_step_goes_through_the_phases_in_this_order() -> None:
    """The docstring of each phase says what must have happened before it. Mutants swap the phases that depend on it."""
    phases = Harness(graph(vertex("v", sources="live", sinks="sink"))).c._phases
    names = [phase.__name__ for phase in phases]
    assert names == ["_expire", "_release", "_change", "_finish", "_begin", "_quiesce", "_observe"]
    assert all(phase.__doc__ for phase in phases)
