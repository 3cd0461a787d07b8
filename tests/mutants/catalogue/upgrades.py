"""Upgrades: a running job continues as another version of it, in the same driver (R21, R22)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_COORDINATOR = "tests/coordinator/test_upgrades.py::"
_SPARK = "tests/spark/test_upgrades.py::"
_CLIENT = "tests/client/test_upgrade.py::"

UPGRADES = (
    Mutant(
        "upgrade-told-as-an-end",
        "R21",
        "JobLifecycle.end_if_done",
        "    if ending.upgrade is not None:",
        "    if False:",
        (f"{_COORDINATOR}test_r21_it_leaves_behind_a_savepoint_that_is_released_and_tells_no_end",),
        "a supervisor takes the job for ended, and starts a second driver",
    ),
    Mutant(
        "upgrade-of-what-was-not-tried",
        "R21",
        "Upgrader.tried",
        "    if message.problem is not None:",
        "    if False:",
        (f"{_COORDINATOR}test_what_speaks_against_it_is_the_answer_and_the_job_goes_on",),
        "the job is stopped for a version that does not fit",
    ),
    Mutant(
        "upgrade-ends-what-fails-meanwhile",
        "R21",
        "Failover.failed",
        "    if stop is not None and stop.upgrade is not None:",
        "    if False:",
        (f"{_COORDINATOR}test_a_query_that_fails_meanwhile_begins_again_and_the_upgrade_is_given_up",),
        "a failure that a restart would mend ends the run because of an upgrade request",
    ),
    Mutant(
        "upgrade-stops-checkpoints-for-ever",
        "R21",
        "Upgrader.advance",
        "    if requests.stop is not None and deadline is not None and now >= deadline:",
        "    if False:",
        (f"{_COORDINATOR}test_a_savepoint_that_is_not_released_in_time_is_not_waited_for_without_checkpoints",),
        "no checkpoint is taken while a sink is out of reach",
    ),
    Mutant(
        "upgrade-goes-before-a-stop",
        "R21",
        "Requests.take_stop",
        "        self.stop.upgrade = None  # an explicit stop overrides the upgrade\n",
        "",
        (f"{_COORDINATOR}test_who_stops_the_job_meanwhile_has_it_stopped",),
        "a job that a user has stopped runs on as another version",
    ),
    Mutant(
        "open-request-left-at-the-end",
        "R22",
        "JobLifecycle._answer_all",
        '    self._answer(None, RequestOutcome.failed(f"the job became {ending.status} first"), now)\n',
        "",
        (f"{_COORDINATOR}test_who_stops_the_job_meanwhile_has_it_stopped",),
        "the sender of a request waits for ever, because the job ended before the answer",
    ),
    Mutant(
        "upgrade-forgets-what-was-asked",
        "R22",
        "RunAttempt._run_claimed",
        "    tidy_up(self._storage, job_id, self._first_epoch(claim))",
        "    tidy_up(self._storage, job_id, claim.epoch)",
        (f"{_SPARK}test_who_asks_the_driver_to_leave_between_two_versions_is_heard",),
        "a request to leave is deleted before the driver reads it, and the driver's process is killed",
        hangs=True,
    ),
    Mutant(
        "upgrade-without-a-look-at-what-a-gate-holds",
        "R9",
        "reuse_preparation",
        "    check_resumable(decision.state, prepared.plan, prepared.job.code, "
        "allow_non_restored_state=keeps, root=root)\n"
        "    refuse_lost_output(decision.state, prepared.sinks)\n"
        "    return",
        "    return",
        (f"{_SPARK}test_what_a_gate_holds_is_not_given_up_with_its_sink",),
        "output staged for a sink that the upgrade removes is never released",
    ),
    Mutant(
        "upgraded-driver-taken-for-another",
        "R22",
        "_is_accepted.since",
        "since = state.deployment or state.driver_since\n",
        "since = state.deployment\n",
        (f"{_CLIENT}test_the_answer_comes_from_the_epoch_that_the_same_driver_goes_on_in",),
        "the sender of an upgrade request is notified that it was overtaken",
    ),
    Mutant(
        "upgrade-gives-up-what-the-next-one-lacks",
        "R21",
        "VersionTrials._load",
        "drops_operators=request.allow_non_restored_state)",
        "drops_operators=running.run.drops_operators or request.allow_non_restored_state)",
        (f"{_SPARK}test_operators_come_and_go_and_the_next_run_goes_by_its_own_file",),
        "an operator left out by mistake loses its state, because an earlier upgrade allowed that for another one",
    ),
    Mutant(
        "upgrade-leaves-a-job-that-seems-to-run",
        "R21",
        "_upgrade",
        "        if resumed.journal.epoch is None and ended.journal is not None:",
        "        if False:",
        (f"{_SPARK}test_if_no_version_can_begin_the_job_does_not_look_as_if_it_ran",),
        "the sender of a failed upgrade request waits for ever",
    ),
    Mutant(
        "evicted-driver-taken-for-a-stopped-one",
        "R22",
        "RunAttempt._finish_run.forget.keep",
        "keep = outcome.status is not JobStatus.FINISHED\n",
        "keep = False\n",
        (f"{_SPARK}test_who_asks_the_driver_to_leave_between_two_versions_is_heard",),
        "the task of an evicted driver succeeds, and the job is not resumed",
    ),
    Mutant(
        "upgrade-takes-a-job-back",
        "R8",
        "RunAttempt._refuse_overtaken",
        "    if self._upgraded is not None and state.epoch != self._upgraded.last_epoch:",
        "    if False:",
        (f"{_SPARK}test_who_takes_the_job_over_between_two_versions_keeps_it",),
        "an overtaken driver takes the job back from its successor",
        hangs=True,
    ),
)
