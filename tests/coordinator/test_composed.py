"""Changes of queries and of sources with splits that one journal entry decides together (R21)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_ckpt.coordinator.protocol.commands import (
    AssignSplits,
    PauseSubtask,
    PrepareReconfiguration,
    RestartSubtask,
    ResumeSubtask,
)
from airflow_provider_ckpt.coordinator.protocol.effects import Effect
from airflow_provider_ckpt.coordinator.protocol.reports import (
    ReconfigurationUnfit,
    SplitsCompleted,
)
from airflow_provider_ckpt.coordinator.state.enumerator import RestoredSplits
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.journal.events import ReconfigurationEnded, Reconfigured
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_request import ReconfigureRequest
from airflow_provider_ckpt.model.pause_reason import PauseReason, Reconfigure, Rescale
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from tests.coordinator.harness import Harness, events, graph, only, outcomes, rescale_requested, vertex

IDS = [f"s{number}" for number in range(40)]
V0, W0, NEW = SubtaskId("v/0"), SubtaskId("w/0"), SubtaskId("parts/2")
WEIGHT, CUT = VertexSettings(pool_weight=3), VertexSettings(state_partitions=4)


def by(parallelism: int) -> VertexSettings:
    return VertexSettings(parallelism=parallelism)


def job(ids: list[str] = IDS, **options: Any) -> Harness:
    """Return a job in which v reads parts, and w reads parts and more. Both sources have two subtasks, by split."""
    parts = replace(vertex("parts", sources="parts", bounded="parts", parallelism=2), splits=True)
    more = replace(vertex("more", sources="more", bounded="more", parallelism=2), splits=True)
    v, w = vertex("v", sources="live", sinks="sink"), vertex("w", sources="other", sinks="out")
    restored = RestoredState(
        splits={uid: RestoredSplits(ids, [SubtaskId(f"{uid}/0"), SubtaskId(f"{uid}/1")]) for uid in ("parts", "more")}
    )
    of = graph(parts, more, v, w, edges="parts>v parts>w more>w")
    return Harness(of, restored=restored, **{"timeout": 60.0, **options})


def change(harness: Harness, request: str = "r", **changes: VertexSettings) -> list[Effect]:
    return harness.handle(ReconfigureRequest(changes, name=request))


def start_subtask(harness: Harness, subtask: SubtaskId) -> list[Effect]:
    harness.attempts[subtask] = AttemptId.vacant(1)
    harness.next_attempt(subtask)
    return harness.running(subtask)


def paused(effects: list[Effect]) -> list[tuple[SubtaskId, PauseReason]]:
    return [(pause.subtask, pause.reason) for pause in only(PauseSubtask, effects)]


def test_r21_one_entry_decides_the_change_of_a_query_and_a_source() -> None:
    harness = job()
    effects = change(harness, v=WEIGHT, parts=by(3))
    assert [prepare.subtask for prepare in only(PrepareReconfiguration, effects)] == [V0], (
        "the source has no query to prepare"
    )
    assert paused(harness.prepared("v/0")) == [(V0, Reconfigure(1))]
    assert events(Reconfigured, harness.effects) == []
    effects = harness.paused("v/0", Reconfigure(1))
    (decided,) = events(Reconfigured, effects)
    assert decided.graph is not None
    assert (decided.settings, decided.graph.rescaled) == ({"v": WEIGHT}, {"parts": 3})
    assert decided.graph.graph.vertex("parts").parallelism == 3
    (resume,) = only(ResumeSubtask, effects)
    assert (resume.subtask, resume.plan.settings, resume.plan.parallelism) == (V0, WEIGHT, {"parts": 3})


def test_r21_a_rescale_pauses_only_the_reader_that_was_not_paused() -> None:
    harness = job()
    change(harness, v=WEIGHT, parts=by(3))
    harness.prepared("v/0")
    harness.paused("v/0", Reconfigure(1))
    effects = harness.running(V0)
    assert paused(effects) == [(W0, Rescale("parts"))]
    assert only(RestartSubtask, effects) == [], "w does not know the new subtask yet"
    (resume,) = only(ResumeSubtask, harness.paused("w/0", Rescale("parts")))
    assert (resume.plan.parallelism, resume.plan.settings) == ({"parts": 3}, None)
    (begin,) = only(RestartSubtask, harness.running(W0))
    assert begin.subtask == NEW
    effects = start_subtask(harness, NEW)
    (ended,) = events(ReconfigurationEnded, effects)
    assert (ended.number, list(ended.took)) == (1, ["v"])
    assert outcomes(effects) == ["completed: v was paused for 0.0 s, parts is read by 3"]
    assert {pause.subtask for pause in only(PauseSubtask, harness.effects)} == {V0, W0}


def test_one_change_rescales_several_sources() -> None:
    harness = job()
    effects = change(harness, parts=by(3), more=by(1))
    (decided,) = events(Reconfigured, effects)
    assert decided.graph is not None
    assert decided.graph.rescaled == {"parts": 3, "more": 1}
    assert [decided.graph.graph.vertex(uid).parallelism for uid in ("parts", "more")] == [3, 2]
    assert paused(effects) == [(V0, Rescale("parts"))]
    harness.paused("v/0", Rescale("parts"))
    assert paused(harness.running(V0)) == [(W0, Rescale("parts"))]
    harness.paused("w/0", Rescale("parts"))
    harness.running(W0)
    assert outcomes(start_subtask(harness, NEW)) == ["completed: parts is read by 3, more is read by 1"]
    for number, split in enumerate(["s4", "s5", "s6"]):
        harness.handle(SplitsCompleted(**harness.world("more/1"), splits=(split,), position=number + 1))
    last = [assignment for assignment in only(AssignSplits, harness.effects) if assignment.subtask == "more/1"][-1]
    assert (last.splits, last.is_last) == ((), True)


def test_a_change_to_fewer_subtasks_pauses_only_the_query() -> None:
    harness = job()
    change(harness, v=WEIGHT, parts=by(1))
    harness.prepared("v/0")
    harness.paused("v/0", Reconfigure(1))
    effects = harness.running(V0)
    assert outcomes(effects) == ["completed: v was paused for 0.0 s, parts is read by 1"]
    assert paused(harness.effects) == [(V0, Reconfigure(1))]


def test_a_repartitioned_query_restarts_with_the_new_subtasks_in_its_plan() -> None:
    harness = job()
    change(harness, v=CUT, w=WEIGHT, parts=by(3))
    harness.prepared("v/0")
    harness.prepared("w/0")
    harness.paused("w/0", Reconfigure(1))
    effects = harness.paused("v/0", Reconfigure(1))
    (again,) = only(RestartSubtask, effects)
    assert (again.subtask, again.plan.settings, again.plan.parallelism) == (V0, CUT, {"parts": 3})
    harness.running(W0)
    harness.next_attempt("v/0")
    harness.running(V0, plan=1)
    assert [restart.subtask for restart in only(RestartSubtask, harness.effects)] == [V0, NEW]
    assert outcomes(start_subtask(harness, NEW))[0].startswith("completed")


# ---- changes that fail


def complete_four_splits(harness: Harness) -> list[Effect]:
    """Report the first four splits that the subtasks of `parts` were handed as read."""
    effects: list[Effect] = []
    for number in range(4):
        assignments = [
            assignment for assignment in only(AssignSplits, harness.effects) if assignment.subtask.vertex == "parts"
        ]
        todo = [(assignment.subtask, split) for assignment in assignments for split in assignment.splits]
        subtask, split = todo[number]
        effects += harness.handle(SplitsCompleted(**harness.world(subtask), splits=(split,), position=number + 1))
    return effects


def last_assignments(effects: list[Effect]) -> list[AssignSplits]:
    return [
        assignment
        for assignment in only(AssignSplits, effects)
        if assignment.is_last and assignment.subtask.vertex == "parts"
    ]


def test_a_source_ends_only_after_its_rescale_is_decided() -> None:
    harness = job(["a", "b", "c", "d"])
    change(harness, v=WEIGHT, parts=by(3))
    assert last_assignments(complete_four_splits(harness)) == [], "more subtasks may read it"
    effects = harness.handle(
        ReconfigurationUnfit(**harness.world("v/0"), trial=harness.trial(), cause="it has other columns")
    )
    assert outcomes(effects) == ["failed: v: it has other columns; the job continues unchanged"]
    assert {assignment.subtask for assignment in last_assignments(effects)} == {"parts/0", "parts/1"}
    assert events(Reconfigured, harness.effects) == []
    assert harness.c.next_deadline(0.0) != 0.0


def test_a_stop_before_the_decision_abandons_the_whole_change() -> None:
    harness = job()
    change(harness, v=WEIGHT, parts=by(3))
    harness.request("stop", "s")
    assert outcomes(harness.effects)[:2] == ["accepted", "accepted"]
    assert "'failed: the job is being ended'" in str(harness.answers("r"))
    assert events(Reconfigured, harness.effects) == []


def test_a_decided_change_has_no_deadline() -> None:
    harness = job()
    change(harness, parts=by(3))
    harness.at(100.0)
    assert harness.c.next_deadline(100.0) != 100.0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"parts": by(41)}, "parts has 40 splits left to read, and cannot be read by 41 subtasks"),
        ({"v": by(2)}, "v is no source with splits"),
        ({"parts": replace(by(2), pool_weight=3)}, "parts is read split by split: only its parallelism"),
        ({"parts": WEIGHT}, "parts is read split by split: only its parallelism"),
    ],
)
def test_one_impossible_setting_refuses_the_whole_request(changes: dict[str, VertexSettings], why: str) -> None:
    harness = job()
    effects = harness.handle(ReconfigureRequest({"w": WEIGHT, **changes}, name="r"))
    assert outcomes(effects)[0].startswith(f"refused: {why}")
    assert len(effects) == 1


def test_a_source_read_by_workers_accepts_a_rescale() -> None:
    harness = job(has_workers=True, running=False)
    for name in ("parts/0", "parts/1", "more/0", "more/1", "v/0", "w/0"):
        harness.next_attempt(name)
        harness.running(SubtaskId(name))
    assert outcomes(change(harness, parts=by(3))) == ["accepted"]


def test_a_second_change_is_refused_while_one_is_in_progress() -> None:
    harness = job()
    change(harness, parts=by(3))
    assert "reconfiguration 1 (of parts, request r) is in progress" in outcomes(change(harness, "s", v=WEIGHT))[0]
    refused = outcomes(harness.handle(rescale_requested("more", 3, "t")))[0]
    assert "reconfiguration 1 (of parts, request r) is in progress" in refused


def test_a_source_can_be_rescaled_in_batch_mode() -> None:
    parts = replace(vertex("parts", sources="parts", bounded="parts", parallelism=2, sinks="out"), splits=True)
    readers = [SubtaskId("parts/0"), SubtaskId("parts/1")]
    restored = RestoredState(splits={"parts": RestoredSplits(IDS, readers)})
    harness = Harness(graph(parts), restored=restored, mode="batch", slots=4)
    effects = harness.handle(ReconfigureRequest({"parts": by(1)}, name="r"))
    assert outcomes(effects) == ["accepted", "completed: parts is read by 1"]
