"""Checks that a worker has the code that its job runs, before it calls a function or writes anything.

A query runs the functions of the job's file as it was when the job was prepared (``PlanRecorded.code``). Operators that
were assigned other functions while the job ran use those (``VertexSettings.logic``).
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable

from airflow_provider_ckpt.job.errors import UnfitLogicError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.reconfigured import loaded
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.spark.errors import WorkerDiffersError
from airflow_provider_ckpt.spark.plan.logic import LogicLoader


def check_code(job: Job, reference: str, state: JobState, subtasks: Iterable[SubtaskId]) -> None:
    """Refuse other code of the operators and sinks that ``subtasks`` run. Other workers check the rest of the job.

    Args:
        reference: of the job.

    Raises WorkerDiffersError.
    """
    declared, sinks = list[str](), list[str]()
    for vertex in {subtask.vertex for subtask in subtasks}:
        given = state.settings[vertex].logic if vertex in state.settings else {}
        declared += [uid for uid in state.graph().vertex(vertex).operators if uid not in given]
        sinks += state.graph().vertex(vertex).sinks  # sinks cannot be assigned other code
    if declared or sinks:
        _refuse_other(job, reference, state, declared)


def check_declared(job: Job, reference: str, state: JobState, operators: Collection[str]) -> None:
    """Refuse other code of operators that get their declared functions back.

    Their declared functions were not checked while they had assigned ones.

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
    """Refuse other code of the functions that operators of ``subtasks`` were assigned.

    Raises WorkerDiffersError.
    """
    for vertex in sorted({subtask.vertex for subtask in subtasks} & state.settings.keys()):
        settings = state.settings[vertex]
        for uid, reference in settings.logic.items():
            given = settings.digests.get(uid)
            if given is None or uid not in state.graph().operators:
                continue
            problem = _differs(uid, reference, given, logic)
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


def _differs(uid: str, reference: str, given: str, logic: LogicLoader) -> str | None:
    """Return how a function differs from the assigned one, or None. ``given``: its digest at the assignment."""
    try:
        found = loaded(uid, reference, functools.partial(logic.found, reference, given))
    except UnfitLogicError as error:
        return f"it {error.data['problem']}"
    return None if found == given else f"digest {found} instead of {given}; comments and layout are not compared"
