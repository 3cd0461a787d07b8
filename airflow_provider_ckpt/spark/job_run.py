"""One run of a job: decide, prepare without writing, claim the job, run it, and clean up.

The run of a job that has already finished needs no Spark.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from airflow_provider_ckpt.errors import CkptError, OvertakenError, TransientError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.options.deadlines import check_deadlines
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.jobmaster.job_identity import Upgraded
from airflow_provider_ckpt.jobmaster.job_master import Outcome
from airflow_provider_ckpt.jobmaster.post_run import post_run
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.recovery.reconciliation import Reconciler
from airflow_provider_ckpt.jobmaster.recovery.takeover import refuse_living_driver
from airflow_provider_ckpt.jobmaster.retention.collector import clean_up
from airflow_provider_ckpt.journal.events import RequestAnswered, StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_request import UpgradeRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.words import ckpt_command
from airflow_provider_ckpt.sinks.binding import bind_sinks
from airflow_provider_ckpt.sinks.lost_output import refuse_older_journal
from airflow_provider_ckpt.spark.app.causes import told as cause_told
from airflow_provider_ckpt.spark.app.storage_reachability import reach_root
from airflow_provider_ckpt.spark.plan.resumable import check_finished_job
from airflow_provider_ckpt.spark.preparation.decision import Decision, decide
from airflow_provider_ckpt.spark.preparation.preparation import (
    PreparedJob,
    check_rights,
    checked_sinks,
    prepare,
    prepared_again,
)
from airflow_provider_ckpt.spark.preparation.version_trials import JobVersion, refuse_beginning_anew
from airflow_provider_ckpt.spark.query.sources.known_late import not_looked_at
from airflow_provider_ckpt.spark.run_attempt import Ended, MovedError, NextVersion, Place, RunAttempt
from airflow_provider_ckpt.status.status_line import LineKind
from airflow_provider_ckpt.status.status_reporter import OnStatus, StatusReporter
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.storage import Storage


def finish_again(
    job: Job, options: RunOptions, root: Storage, location: Location, on_status: OnStatus, state: JobState
) -> Outcome:
    """Report that the job has finished, and clean up. The driver that finished it may have died before it cleaned up.

    Raises the errors of :func:`check_finished_job`.
    """
    check_finished_job(state, job, options)
    reporter = StatusReporter(on_status, options.job_id, None, location.for_display())

    def clean() -> None:
        if state.plan is not None:
            clean_up(root, options.job_id, state.plan.graph, bind_sinks(job, options.job_id, location))

    def look_back() -> None:
        for uid in not_looked_at(root, state):
            where = root.full_uri(f"{state.job_id}/{state.frozen[uid].path}")
            told = (
                f"no run has checked whether files came late to {uid}; the files that it had to read are listed in "
                f"{where}"
            )
            reporter.say(LineKind.WARNING, told, state)

    post_run(reporter, state, "checking whether late files were reported", look_back)
    post_run(reporter, state, "deleting what the job no longer needs", clean)
    reporter.say(LineKind.FINISHED, f"job {options.job_id} has FINISHED already; nothing runs again", state)
    return Outcome(JobStatus.FINISHED)


log = logging.getLogger(__name__)

MOVES = 10
"""Number of changes of the job's state during preparation after which a driver gives up."""


def execute(
    job: Job,
    options: RunOptions,
    storage: Storage,
    location: Location,
    on_status: OnStatus,
    journal: Journal,
) -> Outcome:
    """Take the job over and run it to its end.

    This is the only entry point: for a first start, a retry, a restore, an interrupted job and a finished job.

    1. Decide from the journal. Plan and check everything, and write nothing (:func:`prepare`). This starts Spark,
       unless the job has finished (:func:`finish_again`).
    2. Prepare the places that the job shares with others: the root's marker and the folders of sinks. This needs no
       claim, because a second driver finds it done.
    3. Claim the job. If the journal has changed so that the decision differs, repeat from step 1.
    4. Wait until the previous driver is gone. Find where to begin (:func:`find_recovery_point`). Complete a restore
       that the previous driver has begun, as the logs show. Journal the decision, and fence every log.
    5. Run the job. After a request for an upgrade, repeat from step 1 with the other version of the job
       (:class:`Upgraded`, R21).

    Args:
        location: of the root.
        journal: of the job, not claimed.

    Raises InvalidInputError, FencedError, LogFencedError, TransientError, and storage errors.
    """
    place = Place(storage, location, on_status)
    version = JobVersion(job, options)
    ended = _take_over(version, place, journal)
    while ended.upgrade is not None:
        before = version
        version, ended = _upgrade(before, ended.upgrade, ended.journal, place)
        if version is not before:
            before.forget()
    assert ended.outcome is not None
    return ended.outcome


def open_journal(storage: Storage, options: RunOptions) -> Journal:
    """Return the journal of the job. This neither reads nor claims it."""
    buffer, interval = options.journal_buffer_bytes, options.journal_flush_interval
    return Journal(storage, options.job_id, buffer_bytes=buffer, flush_interval=interval)


def prepare_for_workers(
    job: Job,
    options: RunOptions,
    storage: Storage,
    location: Location,
    on_status: OnStatus,
    journal: Journal,
) -> Outcome | None:
    """Prepare the job as :func:`execute` does before a run, for a JobMaster and workers, which run it (W9).

    Return None if they may begin, or the outcome of a job that is over already.
    """
    place = Place(storage, location, on_status)
    return _take_over(JobVersion(job, options), place, journal, for_workers=True).outcome


def _upgrade(
    before: JobVersion, upgrade: NextVersion, owned: OwnedJournal | None, place: Place
) -> tuple[JobVersion, Ended]:
    """Run the other version. If it fails before its claim, run the previous version again.

    The other version may fail although it was tried, because the job has changed since. Before the claim it has done
    nothing.

    Args:
        before: the version that has run until now.
        owned: the journal as ``before`` has claimed it.

    Returns: the version that ran, and its end.
    """
    journal = open_journal(place.storage, before.options)
    version = upgrade.version
    told = upgrade.told(RequestOutcome.completed(f"the job runs as {version.options.job}"))
    try:
        return version, _take_over(version, place, journal, upgraded=told)
    except OvertakenError:
        raise
    except (Exception, SystemExit) as error:  # a function of the user may raise SystemExit
        if journal.epoch is not None:  # the claim was made, so the next run resumes with the other version
            raise
        why = f"{version.options.job} could not begin: {cause_told(error)}"
        log.warning("%s", why, exc_info=True)
        version.forget()
    told = upgrade.told(RequestOutcome.failed(f"{why}; the job continues unchanged"))
    journal = open_journal(place.storage, before.options)
    try:
        return before, _take_over(before.as_later_run(), place, journal, upgraded=told)
    except OvertakenError:
        raise
    except (Exception, SystemExit) as error:
        if journal.epoch is None and owned is not None:
            _leave(owned, upgrade.request, why, cause_told(error))
        raise


def _leave(owned: OwnedJournal, request: str, why: str, cause: str) -> None:
    """Journal that neither version could begin.

    Otherwise watchers would think that the job runs, and the client of the request would wait.
    """
    with suppress(CkptError):
        answer = RequestOutcome.failed(f"{why}; nor could the previous version resume: {cause}")
        owned.write(RequestAnswered(request, UpgradeRequest.kind, answer, time.time()))
        owned.write(StatusChanged(JobStatus.RESTARTING, time.time(), cause))


def _take_over(
    version: JobVersion,
    place: Place,
    journal: Journal,
    *,
    for_workers: bool = False,
    upgraded: Upgraded | None = None,
) -> Ended:
    job, options, storage, location = version.job, version.options, place.storage, place.location
    reached = functools.cache(lambda: reach_root(job, options, storage, location))
    reconciler = Reconciler(storage, options.job_id)
    for _ in range(MOVES):
        state = journal.refresh()
        if options.spare_driver:
            refuse_living_driver(state, time.time(), storage.uri)
        decision = decide(storage, options, state, reconciler)
        if decision.finished:
            return Ended(finish_again(job, options, storage, location, place.on_status, decision.state))
        live = [source.uid for source in job.sources if not source.bounded]
        check_deadlines(options, live, is_new=decision.is_new, now=time.time())
        prepared = _prepared(version, place, decision, reached)
        if upgraded is not None:
            refuse_beginning_anew(prepared)
        refuse_older_journal(journal, prepared.sinks)
        try:
            return RunAttempt(
                prepared, place, reached(), journal, reconciler, for_workers=for_workers, upgraded=upgraded
            ).run()
        except MovedError:
            continue
    stop = ckpt_command("stop", options.job_id, root=storage.uri)
    raise TransientError(
        "job {job_id!r} changed {times} times while this driver was preparing to take it over; another driver is "
        "running the job: stop that driver first (`{stop}`), or try again",
        job_id=options.job_id,
        times=MOVES,
        stop=stop,
    )


def _prepared(version: JobVersion, place: Place, decision: Decision, reach: Callable[[], object]) -> PreparedJob:
    """Prepare the version. Reuse the preparation from the version's trial if the decision is still the same.

    The reuse shortens the pause of the job during an upgrade.

    Args:
        reach: connects Spark with the storages. It starts Spark, so the checks of the sinks come first.
    """
    if version.prepared is not None and version.prepared.base == decision:
        prepared = prepared_again(version.prepared, decision)
    else:
        job, options, storage, location = version.job, version.to_prepare, place.storage, place.location
        checked = checked_sinks(job, options, storage, location, decision)
        check_rights(storage, checked, options.job_id)
        reach()
        prepared = prepare(job, options, storage, location, decision, checked=checked)
    return replace(prepared, options=version.options)
