"""Upgrades: a running job continues as another version of it, in the same driver (R21, R22)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_COORDINATOR = "tests/coordinator/test_upgrades.py::"
_SPARK = "tests/spark/test_upgrades.py::"
_CLIENT = "tests/client/test_upgrade.py::"

UPGRADES = (
    Mutant(
        "upgrade-reported-as-an-end",
        "R21",
        "JobLifecycle.end_if_done",
        "    if ending.upgrade is not None:",
        "    if False:",
        (f"{_COORDINATOR}test_r21_an_upgrade_releases_a_savepoint_and_journals_no_end",),
        "a supervisor takes the job for ended, and starts a second driver",
    ),
    Mutant(
        "upgrade-without-a-dry-run",
        "R21",
        "Upgrader.tried",
        "    if message.problem is not None:",
        "    if False:",
        (f"{_COORDINATOR}test_a_failed_upgrade_trial_is_answered_and_the_job_continues",),
        "the job is stopped for a version that does not fit",
    ),
    Mutant(
        "upgrade-ends-a-job-that-fails-meanwhile",
        "R21",
        "Failover.failed",
        "    if stop is not None and stop.upgrade is not None:",
        "    if False:",
        (f"{_COORDINATOR}test_a_query_failure_abandons_the_upgrade_and_restarts_the_query",),
        "a failure that a restart would mend ends the run because of an upgrade request",
    ),
    Mutant(
        "upgrade-stops-checkpoints-forever",
        "R21",
        "Upgrader.advance",
        "    if requests.stop is not None and deadline is not None and now >= deadline:",
        "    if False:",
        (f"{_COORDINATOR}test_an_upgrade_whose_savepoint_is_not_released_in_time_fails",),
        "no checkpoint is taken while a sink is out of reach",
    ),
    Mutant(
        "upgrade-overrides-a-stop",
        "R21",
        "Requests.take_stop",
        "        self.stop.upgrade = None  # an explicit stop overrides the upgrade\n",
        "",
        (f"{_COORDINATOR}test_a_stop_during_the_savepoint_of_an_upgrade_stops_the_job",),
        "a job that a user has stopped runs on as another version",
    ),
    Mutant(
        "open-request-left-at-the-end",
        "R22",
        "JobLifecycle._answer_all",
        '    self._answer(None, RequestOutcome.failed(f"the job became {ending.status} first"), now)\n',
        "",
        (f"{_COORDINATOR}test_a_stop_during_the_savepoint_of_an_upgrade_stops_the_job",),
        "the sender of a request waits for ever, because the job ended before the answer",
    ),
    Mutant(
        "upgrade-forgets-open-requests",
        "R22",
        "RunAttempt._run_claimed",
        "    tidy_up(self._storage, job_id, self._first_epoch(claim))",
        "    tidy_up(self._storage, job_id, claim.epoch)",
        (f"{_SPARK}test_a_leave_request_during_an_upgrade_is_carried_out",),
        "a request to leave is deleted before the driver reads it, and the driver's process is killed",
        hangs=True,
    ),
    Mutant(
        "upgrade-ignores-held-releases",
        "R9",
        "reuse_preparation",
        "    check_resumable(decision.state, prepared.plan, prepared.job.code, "
        "allow_non_restored_state=keeps, root=root)\n"
        "    refuse_lost_output(decision.state, prepared.sinks)\n"
        "    return",
        "    return",
        (f"{_SPARK}test_an_upgrade_cannot_drop_a_sink_with_held_output",),
        "output staged for a sink that the upgrade removes is never released",
    ),
    Mutant(
        "upgraded-driver-taken-for-another",
        "R22",
        "_is_accepted.since",
        "since = state.deployment or state.driver_since\n",
        "since = state.deployment\n",
        (f"{_CLIENT}test_an_upgrade_is_answered_in_the_driver_s_next_epoch",),
        "the sender of an upgrade request is notified that it was overtaken",
    ),
    Mutant(
        "upgrade-drops-operators-that-the-next-version-lacks",
        "R21",
        "VersionTrials._load",
        "drops_operators=request.allow_non_restored_state)",
        "drops_operators=running.run.drops_operators or request.allow_non_restored_state)",
        (f"{_SPARK}test_upgrades_add_and_drop_operators_until_the_next_run",),
        "an operator left out by mistake loses its state, because an earlier upgrade allowed that for another one",
    ),
    Mutant(
        "upgrade-leaves-the-status-running",
        "R21",
        "_upgrade",
        "        if resumed.journal.epoch is None and ended.journal is not None:",
        "        if False:",
        (f"{_SPARK}test_a_job_without_a_version_that_can_start_is_not_running",),
        "the sender of a failed upgrade request waits for ever",
    ),
    Mutant(
        "evicted-driver-taken-for-a-stopped-one",
        "R22",
        "RunAttempt._finish_run.forget.keep",
        "keep = outcome.status is not JobStatus.FINISHED\n",
        "keep = False\n",
        (f"{_SPARK}test_a_leave_request_during_an_upgrade_is_carried_out",),
        "the task of an evicted driver succeeds, and the job is not resumed",
    ),
    Mutant(
        "upgrade-takes-a-job-back",
        "R8",
        "RunAttempt._refuse_overtaken",
        "    if self._upgraded is not None and state.epoch != self._upgraded.last_epoch:",
        "    if False:",
        (f"{_SPARK}test_a_driver_that_takes_over_during_an_upgrade_keeps_the_job",),
        "an overtaken driver takes the job back from its successor",
        hangs=True,
    ),
)
