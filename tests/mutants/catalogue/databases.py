"""Staging and release of database sinks (R5, R9)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_AT = "tests/sinks/postgres/"
_CRASHES = f"{_AT}test_crashes.py"
_RULES = f"{_AT}test_rules.py"
_SQL = "tests/sinks/sql/"
_DIES_IN_STAGE = "test_r5_a_stage_that_dies_anywhere_leaves_nothing_that_is_seen_and_what_it_leaves_is_collected"
_AT_ONCE = (f"{_CRASHES}::test_r9_of_two_releasers_at_once_one_releases_and_the_other_finds_it_done",)
_BOTH_OR_NONE = "test_r9_a_release_of_two_tables_that_dies_anywhere_has_happened_in_both_or_in_none"
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
        "sinks/database/share_release.py",
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
        "sinks/database/share_release.py",
        "            self._ledger.supersede(self._connection)\n",
        "",
        (f"{_RULES}::test_who_was_replaced_stays_replaced_and_is_told_by_whom",),
        "the table holds a mixture of two jobs, of which one was to replace the other",
    ),
    Mutant(
        "replace-beside-others",
        "R9",
        "sinks/database/share_release.py",
        "alone=self._replaces and seen.last == 0)",
        "alone=False)",
        (f"{_RULES}::test_of_jobs_that_replace_at_once_one_is_there_in_the_end",),
        "two jobs that replace wait for each other's entries, or both are there in the end",
    ),
    Mutant(
        "sql-ledger-not-locked",
        "R9",
        "sinks/sql/ledger.py",
        "            asked = asked.with_for_update()",
        "            asked = asked.limit(1)",
        (f"{_SQL}test_crashes.py::test_r9_of_two_releasers_at_once_one_releases_and_the_other_finds_it_done",),
        "two releasers both find the entry of before, and both move the rows, or one fails for good",
    ),
    Mutant(
        "sqlite-lock-taken-late",
        "R9",
        "sinks/sql/sqlite_dialect.py",
        '"BEGIN IMMEDIATE"',
        '"BEGIN DEFERRED"',
        (f"{_SQL}test_crashes.py::test_r9_of_two_releasers_at_once_one_releases_and_the_other_finds_it_done",),
        "two releasers both read the ledger of before; SQLite has no other lock",
    ),
    Mutant(
        "sql-snapshot-of-before-the-lock",
        "R9",
        "sinks/sql/mysql_dialect.py",
        "ISOLATION LEVEL READ COMMITTED",
        "ISOLATION LEVEL REPEATABLE READ",
        (f"{_SQL}test_crashes.py::test_r9_of_two_releasers_at_once_one_releases_and_the_other_finds_it_done",),
        "whoever has waited for the lock does not see which batches were released meanwhile",
    ),
    Mutant(
        "sql-replace-beside-others",
        "R9",
        "sinks/sql/ledger.py",
        "        connection.execute(asked.with_for_update(read=not alone)).all()",
        "        connection.execute(asked).all()",
        (f"{_SQL}test_modes.py::test_of_jobs_that_replace_at_once_one_is_there_in_the_end",),
        "two jobs that replace wait for each other's entries, or both are there in the end",
    ),
    Mutant(
        "sql-staging-made-before-its-note",
        "R5",
        "sinks/sql/bound_sql_sink.py",
        "            self._ledger.note_staged(connection, request.id, name)\n",
        "",
        (f"{_SQL}test_crashes.py::{_DIES_IN_STAGE}",),
        "a staging table that nobody knows of is never dropped",
    ),
    Mutant(
        "sql-note-not-locked",
        "R5",
        "sinks/sql/ledger.py",
        "table.c.handle == handle).with_for_update()",
        "table.c.handle == handle)",
        (f"{_SQL}test_crashes.py::test_whoever_makes_a_staging_table_is_waited_for_by_the_clean_up",),
        "a clean-up drops what is not made yet and forgets it, and the table that is made then stays for ever",
    ),
    Mutant(
        "sql-attempts-not-filtered",
        "R5",
        "sinks/sql/releasing.py",
        """for name in handle["columns"])).where(staging.c[PART].in_(handle["parts"]))
        return""",
        """for name in handle["columns"]))
        return""",
        (f"{_SQL}test_crashes.py::test_of_a_task_that_ran_twice_the_rows_of_one_attempt_are_released",),
        "rows of a task that ran twice are released twice",
    ),
    Mutant(
        "sql-mode-of-the-server",
        "R9",
        "sinks/sql/mysql_dialect.py",
        "        return _SETTLE",
        "        return _SETTLE[1:]",
        (f"{_SQL}test_refusals.py::test_a_session_is_strict_and_keeps_backslashes_whatever_the_server_says",),
        "a server that is not strict cuts values, and reads the driver's literals in another way",
    ),
    Mutant(
        "sql-blanks-cut-in-silence",
        "R9",
        "sinks/sql/inserting.py",
        "    if characters is not None and",
        "    if False and",
        (f"{_SQL}test_refusals.py::test_rows_that_mariadb_does_not_take_are_refused_while_they_are_staged",),
        "a VARCHAR loses blanks at its end, however strict the server is",
    ),
    *(
        Mutant(
            f"{name}-in-transactions-of-their-own",
            "R9",
            "sinks/database/bound_database_sink.py",
            "                left.append(at._left(connection))",
            "                left.append(at._left(connection))\n                connection.commit()",
            (f"{folder}test_together.py::{_BOTH_OR_NONE}",),
            "of a checkpoint one table shows its rows and another one does not, for ever if the job is given up",
        )
        for name, folder in (("tables-of-postgresql", _AT), ("tables", _SQL))
    ),
    *(
        Mutant(
            f"{name}-emptied-in-the-order-of-their-filling",
            "R9",
            "sinks/database/bound_database_sink.py",
            "in reversed(parts):",
            "in parts:",
            (f"{folder}::test_tables_that_refer_to_each_other_are_replaced_together",),
            "a table that others refer to cannot be replaced together with them",
        )
        for name, folder in (
            ("tables-of-postgresql", f"{_AT}test_together.py"),
            ("tables", f"{_SQL}test_replaced_together.py"),
        )
    ),
    Mutant(
        "each-of-a-transaction-by-itself",
        "R9",
        "jobmaster/sink_releases.py",
        "        if uid in self._policies.transactions:",
        "        if False:",
        ("tests/spark/test_releaser.py",),
        "sinks that share a transaction are released one after the other",
    ),
    Mutant(
        "rows-of-a-shared-release-told-twice",
        "R9",
        "jobmaster/together_releases.py",
        "self._untold.pop(uid, ",
        "self._untold.get(uid, ",
        ("tests/spark/test_releaser.py",),
        "the journal counts rows twice, and the next start takes the target for one that has lost a release",
    ),
    Mutant(
        "ledger-forgets-what-is-in-the-call",
        "R9",
        "sinks/database/share_release.py",
        '        known = min((handle["since"] for handle in self._staged), default=0) - REMEMBERED',
        '        known = max((handle["since"] for handle in self._staged), default=0) + 1 - REMEMBERED',
        (f"{_RULES}::test_r9_the_ledger_forgets_what_no_call_will_speak_of_again_and_nothing_else",),
        "a batch whose release the journal did not hear of counts as missing for ever",
    ),
)
