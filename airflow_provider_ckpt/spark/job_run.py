"""One run of a job, step by step: decide, prepare (nothing is written), make the places ready, claim, run, end."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from airflow_provider_ckpt.coordinator.requests import UPGRADE
from airflow_provider_ckpt.errors import CkptError, OvertakenError
from airflow_provider_ckpt.job.deadlines import check_deadlines
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.options import RunOptions
from airflow_provider_ckpt.jobmaster.job_master import Outcome
from airflow_provider_ckpt.jobmaster.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.reconciliation import Reconciler
from airflow_provider_ckpt.jobmaster.takeover import refuse_living_driver
from airflow_provider_ckpt.jobmaster.upgrades import Upgraded
from airflow_provider_ckpt.journal.events import RequestAnswered, StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.words import ckpt_command
from airflow_provider_ckpt.report.status_reporter import OnStatus
from airflow_provider_ckpt.sinks.lost_output import refuse_older_journal
from airflow_provider_ckpt.spark.decision import Decision, decide
from airflow_provider_ckpt.spark.errors import JobStateMovedError
from airflow_provider_ckpt.spark.execution import Ended, Execution, MovedError, NextVersion, Place
from airflow_provider_ckpt.spark.finished_job import finish_again
from airflow_provider_ckpt.spark.preparation import (
    PreparedJob,
    check_rights,
    checked_sinks,
    prepare,
    prepared_again,
)
from airflow_provider_ckpt.spark.reaching import reach_root
from airflow_provider_ckpt.spark.task.causes import told as cause_told
from airflow_provider_ckpt.spark.version_trials import JobVersion, refuse_beginning_anew
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.storage import Storage

log = logging.getLogger(__name__)

MOVES = 10
"""How often the state of the job may change under a driver that gets ready, before it gives up."""


def execute(
    job: Job,
    options: RunOptions,
    storage: Storage,
    location: Location,
    on_status: OnStatus,
    journal: Journal,
) -> Outcome:
    """Take the job over and run it to its end. The one way in: for a first start, a retry, a restore, whatever was
    interrupted, and what is over already.

    1. Decide, from the journal; plan and check everything, writing nothing (:func:`prepare`). Spark is started for it,
       unless the job has finished (:func:`finish_again`).
    2. Make the places ready that the job shares with others: the root's marker, the folders of sinks. It needs no
       claim: whoever comes second finds it done.
    3. Claim the job, unless the journal says by now what would be decided otherwise: then once more from 1.
    4. See to it that the driver before is gone. Find where to begin (:func:`find_start`): a restore that the driver
       before has begun and not completed is told by the logs, and goes on. Record what was decided; fence every log.
    5. Run. If somebody has asked for it, then once more from 1., as another version of the job
       (:class:`Upgraded`, R21).

    ``journal``: of the job, not claimed. Raises InvalidInputError, FencedError, LogFencedError, JobStateMovedError, and
    storage errors.
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
    """Of the job, not claimed. Nothing is read yet."""
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
    """As :func:`execute` up to the run itself, which is left to a JobMaster and to workers (W9). None: they may begin;
    else the job is over already."""
    place = Place(storage, location, on_status)
    return _take_over(JobVersion(job, options), place, journal, for_workers=True).outcome


def _upgrade(
    before: JobVersion, upgrade: NextVersion, owned: OwnedJournal | None, place: Place
) -> tuple[JobVersion, Ended]:
    """Run the other version, or, if what was tried does not hold any more, again the one of ``before``: as long as
    nothing is claimed for it, nothing has happened. Returns which one ran. ``owned``: the journal, of ``before``."""
    journal = open_journal(place.storage, before.options)
    version = upgrade.version
    told = upgrade.told(RequestOutcome.completed(f"the job runs as {version.options.job}"))
    try:
        return version, _take_over(version, place, journal, upgraded=told)
    except OvertakenError:
        raise
    except (Exception, SystemExit) as error:  # SystemExit: of a function of the user's
        if journal.epoch is not None:  # it has begun, and is what the next run goes on with
            raise
        why = f"{version.options.job} could not begin: {cause_told(error)}"
        log.warning("%s", why, exc_info=True)
        version.forget()
    told = upgrade.told(RequestOutcome.failed(f"{why}; the job goes on as it was"))
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
    """No version can begin: whoever watches the job would take it for one that runs, and whoever asked would wait."""
    with suppress(CkptError):
        answer = RequestOutcome.failed(f"{why}; nor could the job go on as it was: {cause}")
        owned.write(RequestAnswered(request, UPGRADE, answer, time.time()))
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
            return Execution(
                prepared, place, reached(), journal, reconciler, for_workers=for_workers, upgraded=upgraded
            ).run()
        except MovedError:
            continue
    stop = ckpt_command("stop", options.job_id, root=storage.uri)
    raise JobStateMovedError(job_id=options.job_id, times=MOVES, stop=stop)


def _prepared(version: JobVersion, place: Place, decision: Decision, reach: Callable[[], object]) -> PreparedJob:
    """What was prepared while the job ran is not prepared again while it stands still, unless something else is to be
    decided by now. ``reach``: connects Spark with the storages. It starts Spark, so the checks of the sinks come
    first."""
    if version.prepared is not None and version.prepared.base == decision:
        prepared = prepared_again(version.prepared, decision)
    else:
        job, options, storage, location = version.job, version.to_prepare, place.storage, place.location
        checked = checked_sinks(job, options, storage, location, decision)
        check_rights(storage, checked, options.job_id)
        reach()
        prepared = prepare(job, options, storage, location, decision, checked=checked)
    return replace(prepared, options=version.options)
