"""The order of the phases in which the coordinator carries out a step."""

from __future__ import annotations

from airflow_provider_ckpt.model.job_request import ReconfigureRequest
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from tests.coordinator.harness import Harness, graph, names, vertex


def job() -> Harness:
    return Harness(graph(vertex("v", sources="live", sinks="sink")))


def test_a_step_runs_the_phases_in_order() -> None:
    """Each phase documents which phases must come before it."""
    phases = job().c._phases
    assert [phase.__name__ for phase in phases] == ["_expire", "_release", "_change", "_finish", "_proceed", "_observe"]
    assert all(phase.__doc__ for phase in phases)


def test_nothing_is_journaled_after_the_end_of_the_job() -> None:
    """The change in progress is abandoned before the end is decided."""
    harness = job()
    harness.handle(ReconfigureRequest({"v": VertexSettings(pool_weight=2)}, name="r"))
    effects = harness.fail("v/0", terminal=True)
    assert names(effects)[-1] == "EndJob"
    assert harness.answers("r") == ["accepted", "failed: the job is being ended"]
