"""Changes to queries of a running job in four steps: prepare, pause, commit, resume. Other queries are unaffected (R20,
R21)."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.coordinator.change_scope import by_vertex
from airflow_provider_ckpt.coordinator.errors import ReconfigurationRefusedError
from airflow_provider_ckpt.coordinator.protocol.commands import (
    DeploySubtask,
    PauseSubtask,
    PrepareReconfiguration,
    RestartSubtask,
    ResumeSubtask,
    TriggerBarrier,
)
from airflow_provider_ckpt.coordinator.protocol.effects import Append, Effect
from airflow_provider_ckpt.coordinator.protocol.reports import (
    ReconfigurationPrepared,
    ReconfigurationUnfit,
    SourceAtEnd,
)
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.journal.events import (
    ReconfigurationEnded,
    Reconfigured,
    SourceDropped,
    StatusChanged,
)
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_request import ReconfigureRequest
from airflow_provider_ckpt.model.pause_reason import DropSource, Reconfigure
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from tests.coordinator.harness import Harness, events, graph, only, outcomes, vertex

A0, B0, C0 = SubtaskId("a/0"), SubtaskId("b/0"), SubtaskId("c/0")
THREE = graph(
    vertex("a", sources="live"),
    vertex("b", sources="other", sinks="out_b"),
    vertex("c", sources="third", sinks="out_c"),
    edges="a>b a>c",
)
WEIGHT, CUT = VertexSettings(pool_weight=3), VertexSettings(state_partitions=4)


def three(**options: Any) -> Harness:
    """Return a job in which a (live) feeds b and c; each has a sink."""
    return Harness(THREE, **{"timeout": 60.0, **options})


def ask(harness: Harness, request: str = "r", **changes: VertexSettings) -> list[Effect]:
    return ask_for(harness, changes or {"b": WEIGHT}, request)


def ask_for(harness: Harness, changes: dict[str, VertexSettings], request: str = "r") -> list[Effect]:
    return harness.handle(ReconfigureRequest(changes, name=request))


def report_paused(harness: Harness, subtask: str, number: int = 1) -> list[Effect]:
    return harness.paused(subtask, Reconfigure(number))


def kinds(effects: list[Effect]) -> list[type]:
    return [type(effect.event) if isinstance(effect, Append) else type(effect) for effect in effects]


def test_only_the_changed_query_gets_commands() -> None:
    harness = three()
    effects = ask(harness)
    assert [(prepare.subtask, prepare.plan.settings) for prepare in only(PrepareReconfiguration, effects)] == [
        (B0, WEIGHT)
    ]
    assert outcomes(effects) == ["accepted"]
    assert [pause.subtask for pause in only(PauseSubtask, harness.prepared("b/0"))] == [B0]
    effects = report_paused(harness, "b/0")
    assert kinds(effects) == [Reconfigured, ResumeSubtask]
    (resume,) = only(ResumeSubtask, effects)
    assert (resume.subtask, resume.plan.settings, resume.plan.number) == (B0, WEIGHT, 1)
    effects = harness.running(B0)
    assert outcomes(effects) == ["completed: b was paused for 0.0 s"]
    commanded = {
        effect.subtask
        for effect in harness.effects
        if isinstance(effect, (PauseSubtask, ResumeSubtask, RestartSubtask))
    }
    assert commanded == {B0}


def test_r21_queries_resume_after_all_paused_and_the_change_is_journaled() -> None:
    harness = three()
    ask(harness, b=WEIGHT, c=WEIGHT)
    assert only(PauseSubtask, harness.prepared("b/0")) == [], "c has not prepared its query"
    assert [pause.subtask for pause in only(PauseSubtask, harness.prepared("c/0"))] == [B0, C0]
    assert report_paused(harness, "c/0") == []
    effects = report_paused(harness, "b/0")
    assert kinds(effects) == [Reconfigured, ResumeSubtask, ResumeSubtask]
    (change,) = events(Reconfigured, effects)
    assert (change.number, change.settings) == (1, {"b": WEIGHT, "c": WEIGHT})
    assert outcomes(harness.running(C0)) == [], "b does not run yet"
    (done,) = events(ReconfigurationEnded, harness.running(B0))
    assert (done.number, set(done.took)) == (1, {"b", "c"})


def test_each_phase_is_timed() -> None:
    harness = three()
    ask(harness)
    harness.at(2.0)
    harness.prepared("b/0")
    harness.at(5.0)
    report_paused(harness, "b/0")
    harness.at(6.5)
    (done,) = events(ReconfigurationEnded, harness.running(B0))
    took = done.took["b"]
    assert (took.prepare, took.sync, took.update, took.resume) == (2.0, 3.0, 0.0, 1.5)


def test_r20_a_change_waits_for_the_pending_checkpoint_and_holds_the_next() -> None:
    harness = three()
    harness.at(10.0)
    (pending,) = {barrier.checkpoint for barrier in only(TriggerBarrier, harness.effects)}
    ask(harness)
    assert only(PauseSubtask, harness.prepared("b/0")) == []
    for subtask in THREE.subtasks:
        effects = harness.ack(subtask, pending)
    assert [pause.subtask for pause in only(PauseSubtask, effects)] == [B0]
    harness.released()
    assert only(TriggerBarrier, harness.at(25.0)) == []
    report_paused(harness, "b/0")
    assert only(TriggerBarrier, harness.running(B0)) != []


def test_state_is_repartitioned_in_the_next_attempt() -> None:
    harness = three()
    ask(harness, b=CUT)
    harness.prepared("b/0")
    effects = report_paused(harness, "b/0")
    assert kinds(effects) == [Reconfigured, RestartSubtask]
    (again,) = only(RestartSubtask, effects)
    assert (again.subtask, again.delay, again.plan.settings) == (B0, 0.0, CUT)
    (deploy,) = only(DeploySubtask, harness.next_attempt("b/0"))
    assert (deploy.plan.settings, deploy.plan.number) == (CUT, 1)
    assert outcomes(harness.running(B0, plan=1)) == ["completed: b was paused for 0.0 s"]


# ---- failures before the decision, after which the job continues unchanged


def test_an_unfit_query_abandons_the_whole_change() -> None:
    harness = three()
    ask(harness, b=WEIGHT, c=WEIGHT)
    harness.prepared("b/0")
    effects = harness.handle(
        ReconfigurationUnfit(**harness.world("c/0"), trial=harness.trial(), cause="it has other columns")
    )
    assert outcomes(effects) == ["failed: c: it has other columns; the job continues unchanged"]
    assert [end.number for end in events(ReconfigurationEnded, effects)] == [0]
    assert only(PauseSubtask, harness.effects) == []
    assert outcomes(ask(harness, "again")) == ["accepted"], "a new change is accepted"


@pytest.mark.parametrize(
    "moment", ["while it is prepared", "while it is commanded to pause", "while the other is paused"]
)
def test_r21_a_failure_before_the_decision_abandons_the_whole_change(moment: str) -> None:
    harness = three(restart_attempts=3)
    ask(harness, b=WEIGHT, c=WEIGHT)
    if moment != "while it is prepared":
        harness.prepared("b/0")
        harness.prepared("c/0")
    if moment == "while the other is paused":
        report_paused(harness, "c/0")
    effects = harness.fail(B0)
    assert outcomes(effects) == ["failed: b/0 failed meanwhile; the job continues unchanged"]
    if moment == "while the other is paused":
        assert [(resume.subtask, resume.plan.settings) for resume in only(ResumeSubtask, effects)] == [(C0, None)]
    if moment == "while it is commanded to pause":  # it pauses and then resumes
        (resume,) = only(ResumeSubtask, report_paused(harness, "c/0"))
        assert (resume.subtask, resume.plan.settings) == (C0, None)
    (deploy,) = only(DeploySubtask, harness.next_attempt("b/0"))
    assert deploy.plan.settings is None
    assert events(Reconfigured, harness.effects) == []


def test_a_failure_after_the_decision_keeps_the_change() -> None:
    harness = three(restart_attempts=3)
    ask(harness, b=WEIGHT)
    harness.prepared("b/0")
    report_paused(harness, "b/0")
    assert outcomes(harness.fail(B0)) == []
    (deploy,) = only(DeploySubtask, harness.next_attempt("b/0"))
    assert deploy.plan.settings == WEIGHT
    assert outcomes(harness.running(B0)) == ["completed: b was paused for 0.0 s"]


def test_a_stop_before_the_decision_abandons_the_change() -> None:
    harness = three()
    ask(harness)
    effects = harness.request("stop", "s")
    assert "failed: the job is being ended" in outcomes(effects)
    assert only(PauseSubtask, harness.prepared("b/0")) == []


def test_the_answer_after_an_end_says_that_later_runs_apply_the_change() -> None:
    harness = three()
    ask(harness)
    harness.prepared("b/0")
    report_paused(harness, "b/0")
    effects = harness.fail(B0, terminal=True)
    assert [change.status for change in events(StatusChanged, effects)] == ["FAILED"]
    assert harness.answers("r") == ["accepted", "failed: the job became FAILED first; later runs apply it"]


def test_a_change_that_is_not_prepared_in_time_is_abandoned() -> None:
    harness = three()
    ask(harness)
    assert outcomes(harness.at(59.0)) == []
    assert outcomes(harness.at(60.0)) == [
        "failed: b/0 had not prepared its new query within 60 s; the job continues unchanged"
    ]


def test_a_query_that_reaches_its_end_first_abandons_the_change() -> None:
    job = graph(vertex("h", sources="h", bounded="h"), vertex("v", sources="live", sinks="s"), edges="h>v")
    harness = Harness(job)
    ask(harness, h=WEIGHT)
    assert outcomes(harness.end_of_data("h/0")) == ["failed: h came to its end meanwhile; the job continues unchanged"]


@pytest.mark.parametrize("changes", [{"b": WEIGHT, "c": WEIGHT}, {"b": WEIGHT, "c": CUT}], ids=["limits", "state"])
def test_r21_a_query_that_ends_while_others_are_paused_abandons_the_change(
    changes: dict[str, VertexSettings],
) -> None:
    """The rest of the change is withdrawn, because a change is applied as a whole or not at all."""
    job = graph(
        vertex("h", sources="h", bounded="h"),
        vertex("b", sources="live", sinks="s"),
        vertex("c", sources="third", sinks="t"),
    )
    harness = Harness(job)
    ask_for(harness, {"h": WEIGHT, **changes})
    harness.prepared("h/0")
    harness.prepared("b/0")
    harness.prepared("c/0")
    report_paused(harness, "b/0")
    report_paused(harness, "c/0")
    effects = harness.end_of_data("h/0")
    assert outcomes(effects) == ["failed: h came to its end meanwhile; the job continues unchanged"]
    assert events(Reconfigured, effects) == []
    assert [(resume.subtask, resume.plan.settings) for resume in only(ResumeSubtask, effects)] == [
        (B0, None),
        (C0, None),
    ]
    assert only(RestartSubtask, effects) == []
    assert outcomes(harness.running(B0) + harness.running(C0)) == []


@pytest.mark.parametrize("was_paused", [False, True], ids=["before its pause", "during its pause"])
def test_r21_an_unreported_new_attempt_abandons_the_change(was_paused: bool) -> None:
    """Its worker is gone without a report. The new attempt has read only the decisions from before it opened the
    log."""
    harness = Harness(THREE, timeout=60.0, has_workers=True, running=False)
    for subtask in (A0, B0, C0):
        harness.next_attempt(subtask)
        harness.running(subtask)
    ask(harness, a=WEIGHT, b=WEIGHT)
    harness.prepared("a/0")
    harness.prepared("b/0")
    report_paused(harness, "a/0" if was_paused else "b/0")
    effects = harness.next_attempt("a/0")
    if was_paused:
        effects = effects + report_paused(harness, "b/0")
    assert outcomes(effects) == ["failed: a/0 failed meanwhile; the job continues unchanged"]
    assert events(Reconfigured, effects) == []
    assert [(resume.subtask, resume.plan.settings) for resume in only(ResumeSubtask, effects)] == [(B0, None)]


# ---- one change at a time, and refusals


def test_a_second_change_is_refused_with_the_name_of_the_first() -> None:
    harness = three()
    ask(harness, "first")
    assert outcomes(ask(harness, "second", c=WEIGHT)) == [
        "refused: reconfiguration 1 (of b, request first) is in progress"
    ]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"x": WEIGHT}, "x is no operator of the job; there are: live, a, other, b, third, c"),
        ({"out_b": WEIGHT}, "out_b is a sink, and has no query of its own: name b"),
        ({"b": VertexSettings()}, "no setting is given for b"),
        ({"other": WEIGHT, "b": VertexSettings(pool_weight=4)}, "pool_weight of the query b is given as 3 and 4"),
        (
            {"other": VertexSettings(max_files_per_batch=4), "b": VertexSettings(max_bytes_per_batch=100)},
            "the query b is given both max_bytes_per_batch and max_files_per_batch: Spark takes only one of them",
        ),
        ({"b": VertexSettings(logic={"c": "v2.py:job"})}, "the logic of c is no setting of b"),
        ({"b": VertexSettings(pool_weight=0)}, "b: pool_weight is a whole number above 0, not 0"),
        ({"b": VertexSettings(max_files_per_batch=2**31)}, "b: max_files_per_batch is 2147483647 at the most"),
    ],
)
def test_an_impossible_change_is_refused_by_name(changes: dict[str, VertexSettings], why: str) -> None:
    assert outcomes(ask_for(three(), changes)) == [f"refused: {why}"]
    with pytest.raises(ReconfigurationRefusedError):
        by_vertex(THREE, changes)


def test_a_change_that_already_applies_is_answered_as_completed() -> None:
    """A retried Airflow task sends the same request again."""
    harness = Harness(THREE, restored=RestoredState(settings={"b": WEIGHT}, reconfigured=4))
    assert outcomes(ask(harness)) == ["completed: nothing had to be changed"]
    effects = ask(harness, "more", b=VertexSettings(trigger_interval=2.0))
    (prepare,) = only(PrepareReconfiguration, effects)
    assert (prepare.trial, prepare.plan.settings) == (
        harness.trial(5),
        VertexSettings(pool_weight=3, trigger_interval=2.0),
    )


def test_a_finished_query_is_refused() -> None:
    job = graph(vertex("h", sources="h", bounded="h"), vertex("v", sources="live", sinks="s"), edges="h>v")
    harness = Harness(job)
    harness.end_of_data("h/0")
    assert outcomes(ask(harness, h=WEIGHT)) == ["refused: h has ended"]


def test_a_change_of_a_restarting_query_is_refused() -> None:
    harness = three(restart_attempts=3)
    harness.fail(B0)
    assert outcomes(ask(harness)) == ["refused: b/0 does not run now, it is restarting; ask again"]


def test_answers_to_an_earlier_change_are_dropped() -> None:
    harness = three()
    ask(harness)
    harness.handle(ReconfigurationUnfit(**harness.world("b/0"), trial=harness.trial(), cause="no"))
    ask(harness, "again")
    before = harness.c.dropped_messages.get("stale", 0)
    harness.prepared("c/0")
    assert harness.c.dropped_messages["stale"] == before + 1


# ---- together with other pauses, and after failed changes

MIXED = graph(
    vertex("v", sources="h live", bounded="h", sinks="out_v"),
    vertex("w", sources="other", sinks="out_w"),
)


def mixed(**options: Any) -> Harness:
    """Return a job in which v reads a bounded source (h) and an unbounded one (live). w is independent of v."""
    return Harness(MIXED, **{"timeout": 60.0, **options})


def report_paused_to_drop(harness: Harness) -> list[Effect]:
    return harness.paused("v/0", DropSource("h"))


def report_source_end(harness: Harness) -> list[Effect]:
    return harness.source_at_end("h", "v/0")


def test_an_unfit_change_does_not_disturb_the_drop_of_a_source() -> None:
    harness = mixed()
    ask(harness, w=WEIGHT)
    report_source_end(harness)
    harness.ack("v/0")
    assert [pause.reason for pause in only(PauseSubtask, harness.ack("w/0"))] == [DropSource("h")]
    harness.handle(ReconfigurationUnfit(**harness.world("w/0"), trial=harness.trial(), cause="no"))
    effects = report_paused_to_drop(harness)
    assert kinds(effects) == [SourceDropped, ResumeSubtask]
    (resume,) = only(ResumeSubtask, effects)
    assert resume.plan.dropped == ("h",)


def test_a_late_answer_is_not_taken_for_the_next_change() -> None:
    harness = three()
    ask(harness, b=WEIGHT, c=WEIGHT)
    late = ReconfigurationPrepared(**harness.world("b/0"), trial=harness.trial())
    harness.handle(ReconfigurationUnfit(**harness.world("c/0"), trial=harness.trial(), cause="it has other columns"))
    (prepare,) = only(PrepareReconfiguration, ask(harness, "again", b=CUT))
    assert only(PauseSubtask, harness.handle(late)) == [], "the new change was not tried yet"
    assert [pause.subtask for pause in only(PauseSubtask, harness.prepared("b/0", 2))] == [B0]
    assert prepare.trial == harness.trial(2)


@pytest.mark.parametrize("fits", [True, False], ids=["prepared", "unfit"])
def test_w20_trials_of_a_dead_jobmaster_are_no_answer_to_the_next(fits: bool) -> None:
    """Each JobMaster counts its trials from the last decided change, and a trial may take minutes."""
    before, now = three(epoch=2, deployment=1), three(epoch=3, deployment=1)
    (tried,) = only(PrepareReconfiguration, ask(before))
    (asked,) = only(PrepareReconfiguration, ask(now, "another", b=CUT))
    assert tried.attempt == asked.attempt
    old_world = {**now.world("b/0"), "trial": tried.trial}
    late = (
        ReconfigurationPrepared(**old_world)
        if fits
        else ReconfigurationUnfit(**old_world, cause="it has other columns")
    )
    assert now.handle(late) == []
    assert [pause.subtask for pause in only(PauseSubtask, now.prepared("b/0"))] == [B0]


def test_a_repartitioned_query_can_pause_again_before_the_others_run() -> None:
    harness = mixed(restart_attempts=3)
    ask(harness, v=CUT, w=WEIGHT)
    harness.prepared("v/0")
    harness.prepared("w/0")
    report_paused(harness, "v/0")
    report_paused(harness, "w/0")
    harness.fail("w/0")
    harness.next_attempt("v/0")
    harness.running("v/0", plan=1)
    harness.next_attempt("w/0")
    assert [pause.reason for pause in only(PauseSubtask, report_source_end(harness))] == [DropSource("h")]
    assert kinds(report_paused_to_drop(harness)) == [SourceDropped, ResumeSubtask]


# ---- digests of files


def logic(digest: str | None = None, reference: str = "v2.py:job") -> VertexSettings:
    return VertexSettings(logic={"b": reference}, digests={} if digest is None else {"b": digest})


def read(harness: Harness, digest: str, number: int = 1) -> list[Effect]:
    return harness.handle(
        ReconfigurationPrepared(**harness.world("b/0"), trial=harness.trial(number), digests={"b": digest})
    )


def test_r21_a_change_is_decided_with_the_digest_that_was_tried() -> None:
    """The file may have changed when the change is made, and when the next attempt begins."""
    harness = three(restart_attempts=3)
    (prepare,) = only(PrepareReconfiguration, ask(harness, b=logic()))
    assert prepare.plan.settings == logic()
    read(harness, "d1")
    effects = report_paused(harness, "b/0")
    (change,) = events(Reconfigured, effects)
    (resume,) = only(ResumeSubtask, effects)
    assert (change.settings, resume.plan.settings) == ({"b": logic("d1")}, logic("d1"))
    harness.fail(B0)
    (deploy,) = only(DeploySubtask, harness.next_attempt("b/0"))
    assert deploy.plan.settings == logic("d1")


def assign_to_both(harness: Harness, digests: dict[str, str]) -> list[Effect]:
    """Assign functions of one file to b and c, and report the digest that each has read."""
    both = {uid: VertexSettings(logic={uid: "v2.py:job"}) for uid in ("b", "c")}
    effects = ask_for(harness, both)
    for uid, digest in digests.items():
        message = ReconfigurationPrepared(**harness.world(f"{uid}/0"), trial=harness.trial(), digests={uid: digest})
        effects += harness.handle(message)
    return effects


def test_r21_a_file_that_two_queries_read_differently_fails_the_change() -> None:
    """The file was edited between the two reads, so the change would mix two versions."""
    harness = three()
    effects = assign_to_both(harness, {"b": "d1", "c": "d2"})
    assert outcomes(effects)[1:] == [
        "failed: v2.py:job was not the same for all readers: it was edited meanwhile, or workers have other files; "
        "the job continues unchanged"
    ]
    assert only(PauseSubtask, effects) == []


def test_r21_queries_pause_only_after_all_have_read_the_file() -> None:
    harness = three()
    assert only(PauseSubtask, assign_to_both(harness, {"b": "d1"})) == []
    same = three()
    assert {pause.subtask for pause in only(PauseSubtask, assign_to_both(same, {"b": "d1", "c": "d1"}))} == {B0, C0}


def test_a_reassigned_file_is_read_again() -> None:
    harness = Harness(THREE, restored=RestoredState(settings={"b": logic("d1")}, reconfigured=4), timeout=60.0)
    (prepare,) = only(PrepareReconfiguration, ask(harness, b=logic()))
    assert prepare.plan.settings == logic(), "the request has no digest"
    assert outcomes(read(harness, "d1", 5)) == [
        "completed: nothing had to be changed: the code read for b already runs"
    ]
    ask(harness, "again", b=logic())
    read(harness, "d2", 6)
    (change,) = events(Reconfigured, report_paused(harness, "b/0", 6))
    assert change.settings == {"b": logic("d2")}


def test_the_function_of_the_job_can_be_restored() -> None:
    harness = Harness(THREE, restored=RestoredState(settings={"b": logic("d1")}, reconfigured=4), timeout=60.0)
    (prepare,) = only(PrepareReconfiguration, ask(harness, b=logic(reference="")))
    assert prepare.plan.settings is None
    harness.prepared("b/0", 5)
    effects = report_paused(harness, "b/0", 5)
    (change,) = events(Reconfigured, effects)
    (resume,) = only(ResumeSubtask, effects)
    assert (change.settings, resume.plan.settings) == ({}, None)


def test_a_requested_digest_is_ignored() -> None:
    assert by_vertex(THREE, {"b": logic("d1")}) == {"b": logic()}


# ---- deadline for paused queries


def test_a_query_that_does_not_pause_within_the_timeout_fails_the_change() -> None:
    harness = three(interval=1000.0)
    ask(harness, b=WEIGHT, c=WEIGHT)
    harness.at(30.0)
    harness.prepared("b/0")
    harness.at(40.0)
    harness.prepared("c/0")
    report_paused(harness, "c/0")
    assert harness.c.next_deadline(harness.now) == 100.0
    assert outcomes(harness.at(99.0)) == []
    effects = harness.at(100.0)
    assert outcomes(effects) == ["failed: b/0 did not pause within 60 s; the job continues unchanged"]
    assert [(resume.subtask, resume.plan.settings) for resume in only(ResumeSubtask, effects)] == [(C0, None)]
    (resume,) = only(ResumeSubtask, report_paused(harness, "b/0"))
    assert (resume.subtask, resume.plan.settings) == (B0, None), "it resumes when it pauses late"
    assert events(Reconfigured, harness.effects) == []


def test_a_decided_change_of_a_query_has_no_deadline() -> None:
    harness = three(interval=1000.0)
    ask(harness)
    harness.prepared("b/0")
    report_paused(harness, "b/0")
    assert outcomes(harness.at(500.0)) == []
    assert outcomes(harness.running(B0)) == ["completed: b was paused for 500.0 s"]


def test_assigning_a_function_to_an_ended_source_is_refused() -> None:
    harness = Harness(graph(vertex("b", sources="live history", bounded="history", sinks="out")), timeout=60.0)
    v2 = VertexSettings(logic={"history": "v2.py:job"})
    harness.handle(SourceAtEnd(**harness.world("b/0"), uid="history", batch_id=3, droppable=True))
    answers = outcomes(ask(harness, "r1", history=v2))
    assert answers == ["refused: history has ended, and its function is no longer called"]
    assert outcomes(ask(harness, "r2", live=VertexSettings(logic={"live": "v2.py:job"})))[0] == "accepted"


def test_an_ended_source_can_get_the_function_of_the_job_back() -> None:
    """The file that was assigned to it is no longer needed."""
    given = {"b": VertexSettings(logic={"history": "v2.py:job"}, digests={"history": "d1"})}
    restored = RestoredState(settings=given, ended={"b": ("history",)})
    of_job = graph(vertex("b", sources="live history", bounded="history", sinks="out"))
    harness = Harness(of_job, timeout=60.0, restored=restored)
    assert outcomes(ask(harness, history=VertexSettings(logic={"history": ""}))) == ["accepted"]
