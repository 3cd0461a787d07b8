"""Finished subtasks in batch mode. Such a subtask may have to run again, and its task waits for that (R23)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

KEPT = (
    Mutant(
        "kept-green-too-early",
        "R23",
        "may_run_again",
        "    return state.is_batch\n",
        "    return False\n",
        ("tests/airflow/test_finished_subtask.py::test_a_task_whose_worker_succeeded_is_deferred_while_the_job_runs",),
        "a lost result in batch mode is never produced again, because its task has already succeeded",
    ),
    Mutant(
        "kept-in-streaming",
        "R23",
        "may_run_again",
        "    return state.is_batch\n",
        "    return state.plan is not None\n",
        ("tests/airflow/test_finished_subtask.py::test_a_finished_subtask_in_streaming_mode_succeeds_at_once",),
        "each ended source occupies a triggerer for as long as a never-ending job runs",
    ),
    Mutant(
        "kept-result-never-wanted",
        "R23",
        "ResultRetention.judge",
        "state.deployment > self._deployment and not self._subtasks <= state.finished",
        "not state.deployment and not self._subtasks <= state.finished",
        ("tests/airflow/test_kept_result.py::test_a_deployment_that_needs_the_result_again_ends_the_wait",),
        "the run that must produce a lost result again waits for a worker that is never started",
    ),
    Mutant(
        "kept-result-wanted-where-it-was-made",
        "R23",
        "ResultRetention.judge",
        "        if state.deployment > self._deployment and",
        "        if state.deployment and",
        ("tests/airflow/test_kept_result.py::test_an_unjournaled_end_counts_only_in_its_own_deployment",),
        "a subtask that ended without a JobMaster starts a worker again and again for nothing",
    ),
    Mutant(
        "kept-alone-at-once",
        "R23",
        "ResultRetention._has_master_gone",
        "reading.answer > self._gone_at_answer",
        "reading.answer >= self._gone_at_answer",
        ("tests/airflow/test_kept_result.py::test_an_ended_coordinate_task_ends_the_wait_at_the_second_answer",),
        "tasks that had succeeded fail when a user stops the job by marking its coordinating task",
    ),
    Mutant(
        "kept-by-what-is-missing",
        "R23",
        "ResultRetention.judge",
        "    if is_whole(state):\n",
        "    if state:\n",
        ("tests/airflow/test_kept_result.py::test_an_unreadable_journal_continues_the_wait",),
        "a root that is unmounted for a moment fails all tasks that had succeeded",
    ),
    Mutant(
        "kept-timed-out",
        "R23",
        "WaitingTaskOperator._await_the_end",
        '    self.defer(trigger=trigger, method_name="execute_complete", kwargs={"ran_well": True})\n',
        "    self.defer(\n"
        "        trigger=trigger,\n"
        '        method_name="execute_complete",\n'
        '        kwargs={"ran_well": True},\n'
        "        timeout=self.execution_timeout,\n"
        "    )\n",
        ("tests/airflow/test_finished_subtask.py::test_the_wait_does_not_count_against_the_execution_timeout",),
        "a subtask that used one of its two hours fails because the other subtasks take a day",
    ),
    Mutant(
        "kept-time-counted",
        "R23",
        "WaitingTaskOperator._resume_after",
        "        self._timeout_start = datetime.now(timezone.utc)\n",
        "        pass\n",
        ("tests/airflow/test_finished_subtask.py::test_the_wait_does_not_count_against_the_execution_timeout",),
        "a subtask that runs again has no time left to wait for a JobMaster, and uses up a try",
    ),
    Mutant(
        "kept-in-the-way",
        "R23",
        "SubtaskTaskOperator._exceeds_task_limit",
        "limit is not None and limit < count",
        "limit is not None and not count",
        ("tests/airflow/test_finished_subtask.py::test_a_mapped_task_with_a_concurrency_limit_is_not_deferred",),
        "the last subtasks of a group with a bounded number of instances never start",
    ),
    Mutant(
        "kept-blindly",
        "R23",
        "SubtaskTaskOperator._retain",
        "    if self._holds_slot:\n        reason",
        "    if not self.is_deferrable:\n        reason",
        (
            "tests/airflow/test_finished_subtask.py::test_a_triggerer_that_cannot_read_the_root_ends_the_wait_with_success",
        ),
        "a task whose triggerer lacks the root moves between triggerer and worker for ever",
    ),
    Mutant(
        "kept-without-a-triggerer",
        "R23",
        "WaitingTaskOperator._reset_wait",
        "GIVEN_UP, not self.is_deferrable, None",
        "GIVEN_UP, False, None",
        ("tests/airflow/test_finished_subtask.py::test_a_task_with_deferrable_false_is_never_deferred",),
        "a Dag run in an Airflow without a triggerer never ends",
    ),
    Mutant(
        "kept-polls-not-shared",
        "W25",
        "GroupPolls.reading",
        "if self._reading is None or (self._reading.done() and self._clock() - self._begun_at >= age):",
        "if self._reading is None or age:",
        ("tests/airflow/test_group_looks.py::test_300_concurrent_polls_read_the_journal_once",),
        "each of hundreds of finished subtasks reads the whole journal of the running job",
    ),
    Mutant(
        "kept-lost-input-costs-a-try",
        "W6",
        "report_failed_subtask",
        "    if failure.result_is_lost:\n",
        "    if failure.terminal:\n",
        ("tests/spark/test_worker_ends.py::test_a_worker_that_misses_a_result_sets_run_is_over",),
        "a deleted result costs its reader a try, and a reader without retries ends the group",
    ),
)
