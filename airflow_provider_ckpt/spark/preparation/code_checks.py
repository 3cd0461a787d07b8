"""Checks that the code of assigned functions (R21) and of a worker (W28) is unchanged and allowed, before it runs.

A query runs the functions of the job's file as they were when the job was prepared (``PlanRecorded.code``). Functions
that were assigned while the job ran replace them (``VertexSettings.logic``). A worker checks that it has the same code
before it calls a function or writes anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial

from airflow_provider_ckpt.job.errors import UnfitLogicError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.reconfigured import load_other_version
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.words import ckpt_command
from airflow_provider_ckpt.spark.errors import UnfitAssignedLogicError, WorkerDiffersError
from airflow_provider_ckpt.spark.plan.code_places import CodePlaces
from airflow_provider_ckpt.spark.plan.logic import LogicLoader
from airflow_provider_ckpt.spark.preparation.decision import Decision
from airflow_provider_ckpt.spark.preparation.loaded_run import LoadedRun


def refuse_foreign(places: CodePlaces, run: LoadedRun, decision: Decision) -> None:
    """Refuse assigned functions with code outside of ``places``. No code is read, because the journal may be forged.

    Raises UnfitAssignedLogicError.
    """
    for uid, reference, _ in _assigned(decision):
        try:
            load_other_version(uid, reference, partial(places.check, reference))
        except UnfitLogicError as error:
            raise unfit(uid, reference, error.data["problem"], run) from error


def refuse_edited(logic: LogicLoader, run: LoadedRun, decision: Decision) -> None:
    """Refuse assigned functions whose code was edited after the assignment. A dry run has tried only the earlier code.

    Functions of the job's own file are not refused, because users may edit it between two runs.

    Raises UnfitAssignedLogicError.
    """
    for uid, reference, assigned in _assigned(decision):
        if assigned is None or uid not in run.job.operators or logic.places.is_own(reference):
            continue
        try:
            current = load_other_version(uid, reference, partial(logic.digest_of, reference, assigned))
        except UnfitLogicError as error:
            raise unfit(uid, reference, error.data["problem"], run) from error
        if current != assigned:
            problem = (
                f"has changed since {uid} was given it (digest {current} instead of {assigned}; the digest covers the "
                "modules next to it that it imports, but no comments and no layout)"
            )
            raise unfit(uid, reference, problem, run)


def _assigned(decision: Decision) -> Iterator[tuple[str, str, str | None]]:
    """Yield (operator, reference, digest) of each assigned function. The digest is None if none was recorded."""
    for vertex in decision.graph.vertices:
        if vertex.uid in decision.settings:
            of_vertex = decision.settings[vertex.uid]
            for uid, reference in of_vertex.logic.items():
                if uid in vertex.operators:
                    yield uid, reference, of_vertex.digests.get(uid)


def unfit(uid: str, reference: str, problem: str, run: LoadedRun) -> UnfitAssignedLogicError:
    job_id, root = run.options.job_id, run.location.for_display()
    command = ckpt_command("reconfigure", job_id, f"{uid}.logic=declared", "--next-run", root=root)
    return UnfitAssignedLogicError(uid=uid, reference=reference, problem=problem, command=command)


def check_code(job: Job, reference: str, state: JobState, subtasks: Iterable[SubtaskId]) -> None:
    """Refuse a worker whose job file has other code for operators and sinks of ``subtasks`` than the prepared job.

    Operators with assigned functions are not checked.

    Raises WorkerDiffersError.
    """
    declared, sinks = list[str](), list[str]()
    for vertex in {subtask.vertex for subtask in subtasks}:
        assigned = state.settings[vertex].logic if vertex in state.settings else {}
        declared += [uid for uid in state.graph().vertex(vertex).operators if uid not in assigned]
        sinks += state.graph().vertex(vertex).sinks  # sinks cannot be assigned other code
    if declared or sinks:
        _refuse_other(job, reference, state, declared)


def check_declared(job: Job, reference: str, state: JobState, operators: Collection[str]) -> None:
    """Refuse a worker whose job file has other code for ``operators`` than the prepared job.

    These operators return from assigned functions to the functions of the job's file.

    Raises WorkerDiffersError.
    """
    if operators:
        _refuse_other(job, reference, state, operators)


def _refuse_other(job: Job, reference: str, state: JobState, operators: Collection[str]) -> None:
    recorded = None if state.plan is None else state.plan.code
    if recorded is None or job.code is None:
        return
    differs = recorded.differences(job.code, operators)
    if differs:
        file = reference.rpartition(":")[0]
        raise WorkerDiffersError(
            "{file}, of this worker, differs from the file that job {job_id!r} was prepared with (deployment "
            "{deployment}), apart from comments and layout, in: {differs}. Its subtasks would run other code than the "
            "rest of the job: give this worker the original file, and the modules that it imports. To run the job as "
            "it is now, stop it and start its master and workers again",
            file=file,
            job_id=state.job_id,
            deployment=state.deployment,
            differs=" and ".join(differs),
        )


def check_logic(logic: LogicLoader, state: JobState, subtasks: Iterable[SubtaskId]) -> None:
    """Refuse a worker whose files have other code for assigned functions of ``subtasks`` than at the assignment.

    Raises WorkerDiffersError.
    """
    for vertex in sorted({subtask.vertex for subtask in subtasks} & state.settings.keys()):
        settings = state.settings[vertex]
        for uid, reference in settings.logic.items():
            assigned = settings.digests.get(uid)
            if assigned is None or uid not in state.graph().operators:
                continue
            problem = _differs(uid, reference, assigned, logic)
            if problem is not None:
                file = reference.rpartition(":")[0]
                raise WorkerDiffersError(
                    "{file}, of this worker, differs from the file that {uid!r} of job {job_id!r} was given while the "
                    "job ran ({problem}): give this worker the original file, and the modules that it imports, or "
                    "stop the job and start its master and workers again, which use the current file",
                    file=file,
                    uid=uid,
                    job_id=state.job_id,
                    problem=problem,
                )


def _differs(uid: str, reference: str, expected: str, logic: LogicLoader) -> str | None:
    """Return a phrase if the code of ``reference`` no longer has the assigned digest ``expected``; None if it has."""
    try:
        digest = load_other_version(uid, reference, partial(logic.digest_of, reference, expected))
    except UnfitLogicError as error:
        return f"it {error.data['problem']}"
    return (
        None if digest == expected else f"digest {digest} instead of {expected}; comments and layout are not compared"
    )
