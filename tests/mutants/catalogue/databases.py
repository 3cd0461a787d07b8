"""Staging and release of database sinks (R5, R9)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_AT = "tests/sinks/postgres/"
_CRASHES = f"{_AT}test_crashes.py"
_RULES = f"{_AT}test_rules.py"
_AT_ONCE = (f"{_CRASHES}::test_r9_of_two_releasers_at_once_one_releases_and_the_other_finds_it_done",)
_LEDGER = (
    f"{_RULES}::test_a_ledger_that_is_gone_is_never_taken_for_one_that_has_released_nothing",
    f"{_RULES}::test_a_ledger_of_an_older_backup_is_refused",
)

DATABASES = (
    Mutant(
        "ledger-not-locked",
        "R9",
        "sinks/postgres/ledger.py",
        '            asked += " FOR UPDATE"',
        '            asked += ""',
        _AT_ONCE,
        "two releasers both find the entry of before, and both move the rows, or one fails for good",
    ),
    Mutant(
        "ledger-read-before-the-lock",
        "R9",
        "sinks/postgres/database.py",
        "IsolationLevel.READ_COMMITTED",
        "IsolationLevel.SERIALIZABLE",
        _AT_ONCE,
        "whoever has waited for the lock sees the entry of before it",
    ),
    Mutant(
        "checkpoint-not-compared",
        "R9",
        "sinks/database/ledger_rules.py",
        "        if checkpoint <= row.last:",
        "        if checkpoint < 0:",
        (f"{_RULES}::test_r9_a_lower_checkpoint_with_a_batch_that_was_never_released_tells_of_another_job",),
        "a late releaser takes the ledger back, and an upsert puts old values back",
    ),
    Mutant(
        "released-handles-not-skipped",
        "R9",
        "sinks/database/ledger_rules.py",
        'if handle["id"] not in released}',
        "if True}",
        (f"{_CRASHES}::test_a_commit_whose_reply_was_lost_is_found_in_the_ledger",),
        "a batch that was released, and whose release the journal did not hear of, counts as missing for ever",
    ),
    Mutant(
        "attempts-not-filtered",
        "R5",
        "sinks/postgres/releasing.py",
        '    return sql.SQL("{}::bigint[]").format(sql.Literal(handle["parts"]))',
        '    return sql.SQL("array(SELECT generate_series(0, 100000)::bigint)")',
        (f"{_CRASHES}::test_of_a_task_that_ran_twice_the_rows_of_one_attempt_are_released",),
        "rows of a task that ran twice are released twice",
    ),
    Mutant(
        "commit-not-on-disk",
        "R9",
        "sinks/postgres/database.py",
        "set_config('synchronous_commit', 'on', true)",
        "set_config('bytea_output', 'hex', true)",
        (f"{_RULES}::test_a_transaction_commits_to_the_disk_whatever_the_role_says",),
        "a crash of the server takes a release back that was told",
    ),
    Mutant(
        "staged-rows-not-counted",
        "R5",
        "sinks/database/bound_database_sink.py",
        '            if moved != handle["rows"]:',
        "            if moved < 0:",
        (f"{_RULES}::test_staged_rows_that_somebody_has_deleted_are_missed_by_number",),
        "rows that somebody has deleted are left out in silence",
    ),
    Mutant(
        "lost-ledger-is-a-new-one",
        "R9",
        "sinks/database/ledger_rules.py",
        '            if row.born != handle["ledger"]:',
        "            if False:",
        _LEDGER,
        "a ledger that was made anew releases rows once more that are in the table",
    ),
    Mutant(
        "older-ledger-is-believed",
        "R9",
        "sinks/database/ledger_rules.py",
        '            if row.last < handle["since"]:',
        "            if False:",
        _LEDGER,
        "a ledger of an older backup releases rows once more that are in the table",
    ),
    Mutant(
        "staging-unlogged",
        "R5",
        "sinks/postgres/staging.py",
        '"CREATE TABLE {} (LIKE {} INCLUDING CONSTRAINTS)"',
        '"CREATE UNLOGGED TABLE {} (LIKE {} INCLUDING CONSTRAINTS)"',
        (f"{_CRASHES}::test_a_server_that_is_killed_in_the_middle_of_a_release_has_released_nothing_and_lost_nothing",),
        "a crash of the server empties what is staged",
    ),
    Mutant(
        "replaced-jobs-go-on",
        "R9",
        "sinks/database/bound_database_sink.py",
        "            self._ledger.supersede(connection)\n",
        "",
        (f"{_RULES}::test_who_was_replaced_stays_replaced_and_is_told_by_whom",),
        "the table holds a mixture of two jobs, of which one was to replace the other",
    ),
    Mutant(
        "replace-beside-others",
        "R9",
        "sinks/database/bound_database_sink.py",
        "alone=replaces and seen.last == 0)",
        "alone=False)",
        (f"{_RULES}::test_of_jobs_that_replace_at_once_one_is_there_in_the_end",),
        "two jobs that replace wait for each other's entries, or both are there in the end",
    ),
)
