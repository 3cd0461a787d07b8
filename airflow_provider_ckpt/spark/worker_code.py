"""Whether a worker has the code that its job runs: looked at before any function is called, or anything is written.

The functions that a query runs are those of the job's file as whoever has prepared the job read it
(``PlanRecorded.code``), but for operators that were given others while it ran (``VertexSettings.logic``).
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable

from airflow_provider_ckpt.job.errors import UnfitLogicError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.reconfigured import loaded
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.spark.errors import OtherCodeError, OtherLogicError
from airflow_provider_ckpt.spark.query.logic import LogicLoader


def check_code(job: Job, reference: str, state: JobState, subtasks: Iterable[SubtaskId]) -> None:
    """``reference``: of the job. Of what ``subtasks`` run: the rest is for other workers. Raises OtherCodeError."""
    declared, sinks = list[str](), list[str]()
    for vertex in {subtask.vertex for subtask in subtasks}:
        given = state.settings[vertex].logic if vertex in state.settings else {}
        declared += [uid for uid in state.graph().vertex(vertex).operators if uid not in given]
        sinks += state.graph().vertex(vertex).sinks  # which nobody can give others
    if declared or sinks:
        _refuse_other(job, reference, state, declared)


def check_declared(job: Job, reference: str, state: JobState, operators: Collection[str]) -> None:
    """The same of operators that are to have the function of the job again: it was not looked at while they had
    another one. Raises OtherCodeError."""
    if operators:
        _refuse_other(job, reference, state, operators)


def _refuse_other(job: Job, reference: str, state: JobState, operators: Collection[str]) -> None:
    recorded = None if state.plan is None else state.plan.code
    if recorded is None or job.code is None:
        return
    differs = recorded.differences(job.code, operators)
    if differs:
        file = reference.rpartition(":")[0]
        raise OtherCodeError(file=file, job_id=state.job_id, deployment=state.deployment, differs=" and ".join(differs))


def check_logic(logic: LogicLoader, state: JobState, subtasks: Iterable[SubtaskId]) -> None:
    """Reads the files that operators of what ``subtasks`` run were given. Raises OtherLogicError."""
    for vertex in sorted({subtask.vertex for subtask in subtasks} & state.settings.keys()):
        settings = state.settings[vertex]
        for uid, reference in settings.logic.items():
            given = settings.digests.get(uid)
            if given is None or uid not in state.graph().operators:
                continue
            problem = _differs(uid, reference, given, logic)
            if problem is not None:
                file = reference.rpartition(":")[0]
                raise OtherLogicError(file=file, uid=uid, job_id=state.job_id, problem=problem)


def _differs(uid: str, reference: str, given: str, logic: LogicLoader) -> str | None:
    """``given``: its digest when it was assigned."""
    try:
        found = loaded(uid, reference, functools.partial(logic.found, reference, given))
    except UnfitLogicError as error:
        return f"it {error.data['problem']}"
    return None if found == given else f"digest {found} instead of {given}; comments and layout do not count"
