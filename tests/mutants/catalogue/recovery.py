"""What a job in batch mode keeps, and what it runs again (R23, FLIP-383)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_DECIDED = ("tests/coordinator/test_reconciliation.py",)
_LOST = ("tests/partitions/test_lost_entries.py",)
_SPARK = "tests/spark/test_recovery.py::"
_TOGETHER = (
    "tests/spark/test_splits_together.py::"
    "test_of_an_entry_that_is_not_whole_any_more_all_splits_are_read_again_and_nothing_else"
)

RECOVERY = (
    Mutant(
        "one-of-a-lost-entry-read-again",
        "R23",
        "jobmaster/reconciliation.py",
        "for name in entry.completes if name in known)",
        "for name in entry.completes[:1] if name in known)",
        (_TOGETHER,),
        "the others that were read together are told as done, and their rows are gone",
    ),
    Mutant(
        "lost-only-below-who-runs",
        "R23",
        "coordinator/reconciliation.py",
        "                run.add(subtask)\n",
        "",
        _DECIDED,
        "who runs again finds no input: what it reads is gone, too",
    ),
    Mutant(
        "all-upstream-runs-again",
        "R23",
        "coordinator/reconciliation.py",
        "            if wanted is not None and positions:",
        "            if wanted is not None:",
        _DECIDED,
        "what is there is made again",
    ),
    Mutant(
        "unwanted-results-made-again",
        "R23",
        "coordinator/reconciliation.py",
        "            positions = () if wanted is None else tuple(sorted(gone(subtask)))\n",
        "            positions, wanted = tuple(sorted(gone(subtask))), wanted or subtask\n",
        _DECIDED,
        "what nobody reads any more is made again",
    ),
    Mutant(
        "emptied-result-kept",
        "R23",
        "partitions/lost_entries.py",
        "any(found.get(file.path) != file.size for file in files)",
        "any(file.path not in found for file in files)",
        _LOST,
        "an emptied file is read as one without rows",
    ),
    Mutant(
        "void-entries-read",
        "R4",
        "partitions/log_state.py",
        "            found += record.voids\n",
        "",
        _LOST,
        "a split that was read again is there twice",
    ),
    Mutant(
        "covered-work-begun-anew",
        "R16",
        "spark/decision.py",
        "    if state.status is JobStatus.STOPPED or not nothing_is_covered(state):",
        "    if state.status is JobStatus.STOPPED:",
        (f"{_SPARK}test_without_recovery_what_is_covered_is_not_done_again",),
        "without batch recovery a retry does again what was released, or is going to be",
    ),
    Mutant(
        "result-promised-behind-a-checkpoint",
        "R23",
        "spark/task/batch_runner.py",
        "                if not self._produces_again:",
        "                if False:",
        (f"{_SPARK}test_nobody_is_promised_that_a_result_is_produced_again_that_is_not",),
        "a job that no run can end is tried again for ever",
    ),
    Mutant(
        "reset-not-journaled",
        "R23",
        "spark/job_run.py",
        "            journal.write(event)\n            self._status.event(event, journal.state)\n",
        "            self._status.event(event, journal.state)\n",
        (f"{_SPARK}test_who_made_a_result_that_is_gone_runs_again_and_nobody_else",),
        "the coordinator takes what is run again for ended",
        hangs=True,
    ),
    Mutant(
        "end-kept-over-lost-splits",
        "R23",
        "partitions/subtask_log.py",
        "                voids = union(lost, ranges(self._ends())) if lost else ()",
        "                voids = lost",
        _LOST,
        "a subtask with lost splits is at its end, and nobody reads them",
    ),
    Mutant(
        "lost-result-fails-for-good",
        "R23",
        "spark/task/batch_runner.py",
        "                raise ResultLostError(producer=producer, **error.data) from None",
        "                raise",
        (f"{_SPARK}test_what_goes_while_the_job_runs_is_made_again_by_the_next_run",),
        "a job that could make a result again is FAILED",
    ),
)
