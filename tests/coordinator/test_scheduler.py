"""Deployment of subtasks: all at once in STREAMING, and over complete inputs in BATCH."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.coordinator.protocol.commands import DeploySubtask
from airflow_provider_ckpt.coordinator.protocol.effects import Effect
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from tests.coordinator.harness import CHAIN, Harness, graph, only, vertex

DIAMOND = graph(
    vertex("a", sources="a", bounded="a"),
    vertex("b"),
    vertex("c"),
    vertex("d", sinks="sink"),
    edges="a>b a>c b>d c>d",
)


def batch(of: JobGraph, slots: int = 100, **more: Any) -> Harness:
    return Harness(of, running=False, mode="batch", slots=slots, **more)


def deployed(effects: list[Effect]) -> list[str]:
    return [command.subtask for command in only(DeploySubtask, effects)]


def test_streaming_deploys_everything_at_once() -> None:
    assert deployed(Harness(CHAIN, running=False).effects) == ["src/0", "mid/0"]


def test_a_finished_subtask_is_not_deployed() -> None:
    h = Harness(CHAIN, running=False, restored=RestoredState(finished=frozenset({SubtaskId("src/0")})))
    assert deployed(h.effects) == ["mid/0"]


def test_r23_batch_deploys_over_complete_inputs_only() -> None:
    h = batch(DIAMOND)
    assert deployed(h.effects) == ["a/0"]
    assert deployed(h.running("a/0")) == []
    assert deployed(h.end_of_data("a/0")) == [SubtaskId("b/0"), SubtaskId("c/0")]
    assert deployed(h.end_of_data("b/0")) == []
    assert deployed(h.end_of_data("c/0")) == [SubtaskId("d/0")]


def test_running_subtasks_never_exceed_the_slots() -> None:
    h = batch(DIAMOND, slots=1)
    assert deployed(h.end_of_data("a/0")) == [SubtaskId("b/0")]
    assert deployed(h.running("b/0")) == []
    assert deployed(h.end_of_data("b/0")) == [SubtaskId("c/0")]


def test_less_than_one_slot_is_refused() -> None:
    with pytest.raises(ValueError, match="slots must be 1 or more"):
        batch(DIAMOND, slots=0)


def test_an_all_to_all_consumer_waits_for_every_producer_subtask() -> None:
    wide = graph(vertex("a", sources="a", bounded="a", parallelism=3), vertex("b", parallelism=2), edges="a>b")
    h = batch(wide)
    assert deployed(h.effects) == ["a/0", "a/1", "a/2"]
    assert deployed(h.end_of_data("a/0")) + deployed(h.end_of_data("a/2")) == []
    assert deployed(h.end_of_data("a/1")) == [SubtaskId("b/0"), SubtaskId("b/1")]


def test_a_pointwise_consumer_waits_for_its_own_producers() -> None:
    wide = graph(
        vertex("a", sources="a", bounded="a", parallelism=3),
        vertex("b", parallelism=3),
        edges="a>b",
        kind="pointwise",
    )
    h = batch(wide)
    assert deployed(h.end_of_data("a/1")) == [SubtaskId("b/1")]
    assert deployed(h.end_of_data("a/0")) == [SubtaskId("b/0")]


def test_after_a_restart_an_ended_producer_makes_way_for_its_consumers() -> None:
    h = batch(DIAMOND, restored=RestoredState(end_of_data=frozenset({SubtaskId("a/0"), SubtaskId("b/0")})))
    assert deployed(h.effects) == ["a/0"]
    assert deployed(h.end_of_data("a/0")) == [SubtaskId("b/0"), SubtaskId("c/0")]


def test_an_ending_batch_job_deploys_no_subtask() -> None:
    h = batch(DIAMOND)
    h.running("a/0")
    h.fail("a/0")
    assert deployed(h.end_of_data("a/0")) == []
    assert h.c.status == "RESTARTING"
