"""One run of a job by a driver: decide, prepare without writing, claim the job, run it, and clean up."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import replace

from airflow_provider_ckpt.errors import CkptError, OvertakenError, TransientError
from airflow_provider_ckpt.job.options.deadlines import check_deadlines
from airflow_provider_ckpt.jobmaster.job_identity import Upgraded
from airflow_provider_ckpt.jobmaster.job_master import Outcome
from airflow_provider_ckpt.jobmaster.post_run import post_run
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal, open_journal
from airflow_provider_ckpt.jobmaster.recovery.reconciliation import Reconciler
from airflow_provider_ckpt.jobmaster.recovery.takeover import refuse_living_driver
from airflow_provider_ckpt.jobmaster.retention.collector import clean_up
from airflow_provider_ckpt.journal.events import RequestAnswered, StatusChanged
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_request import UpgradeRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.words import ckpt_command
from airflow_provider_ckpt.sinks.binding import bind_sinks
from airflow_provider_ckpt.sinks.lost_output import refuse_older_journal
from airflow_provider_ckpt.spark.app.query_failure import describe_error
from airflow_provider_ckpt.spark.plan.resumable import check_finished_job
from airflow_provider_ckpt.spark.preparation.decision import decide
from airflow_provider_ckpt.spark.preparation.loaded_run import LoadedRun
from airflow_provider_ckpt.spark.preparation.run_preparation import PreparedRun, prepare, reuse_preparation
from airflow_provider_ckpt.spark.preparation.version_trials import refuse_start_from_scratch
from airflow_provider_ckpt.spark.query.sources.known_late import unchecked_sources
from airflow_provider_ckpt.spark.run_attempt import Ended, RunAttempt, StaleDecisionError
from airflow_provider_ckpt.status.status_line import LineKind

log = logging.getLogger(__name__)

MAX_CLAIMS = 10
"""Maximum number of times that a driver tries to claim a job. A try fails if the job changed during the preparation."""


def execute(run: LoadedRun) -> Outcome:
    """Take the job over and run it to its end.

    All runs begin here: a first start, a retry, a restore, an interrupted job and a finished job.

    1. Decide from the journal. Plan and check everything, and write nothing (:func:`prepare`). This starts Spark,
       unless the job has finished (:func:`finish_again`).
    2. Prepare the root's marker and the folders of sinks. This needs no claim, because other jobs may use them, too.
    3. Claim the job. If the journal has changed so that the decision differs, repeat from step 1.
    4. Make sure that the previous driver is gone. Find the recovery point (:func:`find_recovery_point`). Complete a
       restore that the previous driver has begun. Journal the decision, and fence every log.
    5. Run the job. After a request for an upgrade, repeat from step 1 with the other version of the job
       (:class:`Upgraded`, R21).

    Raises InvalidInputError, FencedError, LogFencedError, TransientError, and storage errors.
    """
    ended = _take_over(run)
    while ended.version is not None:
        previous = run
        run, ended = _upgrade(previous, ended)
        if run is not previous:
            previous.forget()
    assert ended.outcome is not None
    return ended.outcome


def prepare_for_workers(run: LoadedRun) -> Outcome | None:
    """Claim and prepare the job as :func:`execute` does, but leave the run to a JobMaster and workers (W9).

    Return None if the workers may begin; the outcome if the job has already FINISHED.
    """
    return _take_over(run, for_workers=True).outcome


def _upgrade(previous: LoadedRun, ended: Ended) -> tuple[LoadedRun, Ended]:
    """Run the version of the job to which a request upgrades. If it fails before its claim, resume ``previous``.

    Return (the version that ran, the end of its run).
    """
    tried, upgraded = ended.version, ended.upgraded
    assert tried is not None
    assert upgraded is not None
    version = replace(tried.run, journal=open_journal(previous.storage, previous.options))
    try:
        return version, _take_over(version, upgraded=upgraded, tried=tried)
    except OvertakenError:
        raise
    except (Exception, SystemExit) as error:  # a function of the user may raise SystemExit
        if version.journal.epoch is not None:  # the claim was made, so the next run resumes with the other version
            raise
        message = f"{version.options.job} could not begin: {describe_error(error)}"
        log.warning("%s", message, exc_info=True)
        version.forget()
    upgraded = replace(upgraded, outcome=RequestOutcome.failed(f"{message}; the job continues unchanged"))
    resumed = previous.as_later_run()
    try:
        return previous, _take_over(resumed, upgraded=upgraded)
    except OvertakenError:
        raise
    except (Exception, SystemExit) as error:
        if resumed.journal.epoch is None and ended.journal is not None:
            _leave(ended.journal, upgraded.request, message, describe_error(error))
        raise


def _leave(owned: OwnedJournal, request: str, reason: str, cause: str) -> None:
    """Journal that the upgrade failed and neither version could begin. Otherwise its client would wait for ever."""
    with suppress(CkptError):
        outcome = RequestOutcome.failed(f"{reason}; nor could the previous version resume: {cause}")
        owned.write(RequestAnswered(request, UpgradeRequest.kind, outcome, time.time()))
        owned.write(StatusChanged(JobStatus.RESTARTING, time.time(), cause))


def _take_over(
    run: LoadedRun,
    *,
    for_workers: bool = False,
    upgraded: Upgraded | None = None,
    tried: PreparedRun | None = None,
) -> Ended:
    """Prepare the job, claim it, and run it. If it has FINISHED already, only clean up.

    ``tried``: a preparation to reuse if the decision is still the same; None to prepare the job in any case.
    """
    job, options, storage = run.job, run.options, run.storage
    reconciler = Reconciler(storage, options.job_id)
    for _ in range(MAX_CLAIMS):
        state = run.journal.refresh()
        if options.spare_driver:
            refuse_living_driver(state, time.time(), storage.uri)
        decision = decide(storage, options, state, reconciler)
        if decision.finished:
            return Ended(finish_again(run, decision.state))
        live = [source.uid for source in job.sources if not source.bounded]
        check_deadlines(options, live, is_new=decision.is_new, now=time.time())
        if tried is not None and tried.decision == decision:
            prepared = reuse_preparation(tried, run, decision)
        else:
            prepared = prepare(run, decision, tries_rights=True)
        if upgraded is not None:
            refuse_start_from_scratch(prepared)
        refuse_older_journal(run.journal, prepared.sinks)
        try:
            return RunAttempt(prepared, reconciler, for_workers=for_workers, upgraded=upgraded).run()
        except StaleDecisionError:
            continue
    stop = ckpt_command("stop", options.job_id, root=storage.uri)
    raise TransientError(
        "job {job_id!r} changed {times} times while this driver was preparing to take it over; another driver is "
        "running the job: stop that driver first (`{stop}`), or try again",
        job_id=options.job_id,
        times=MAX_CLAIMS,
        stop=stop,
    )


def finish_again(run: LoadedRun, state: JobState) -> Outcome:
    """Report that the job has FINISHED, and clean up, because an earlier driver may have died before its own cleanup.

    Raises the errors of :func:`check_finished_job`.
    """
    job, root, job_id = run.job, run.storage, run.options.job_id
    check_finished_job(state, job, run.options)
    reporter = run.request.reporter()

    def clean() -> None:
        if state.plan is not None:
            clean_up(root, job_id, state.plan.graph, bind_sinks(job, job_id, run.location))

    def report_unchecked() -> None:
        for uid in unchecked_sources(root, state):
            where = root.full_uri(f"{state.job_id}/{state.frozen[uid].path}")
            message = (
                f"no run has checked whether files came late to {uid}; the files that it had to read are listed in "
                f"{where}"
            )
            reporter.report(LineKind.WARNING, message, state)

    post_run(reporter, state, "checking whether late files were reported", report_unchecked)
    post_run(reporter, state, "deleting what the job no longer needs", clean)
    reporter.report(LineKind.FINISHED, f"job {job_id} has FINISHED already; nothing runs again", state)
    return Outcome(JobStatus.FINISHED)
