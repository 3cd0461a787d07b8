"""Journal of a job in batch mode that was resumed (FLIP-383)."""

from __future__ import annotations

import json
from pathlib import Path

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.event_codec import decode, encode
from airflow_provider_ckpt.journal.state_json import state_from_json, state_to_json
from airflow_provider_ckpt.model.split import numbers
from airflow_provider_ckpt.status.reconciled import recovery_summary, table
from tests.journal.samples import folded, of_recovery

GOLDEN = Path(__file__).parents[1] / "golden" / "recovery-v1.json"


def last() -> ev.JobReconciled:
    event = of_recovery()[-1]
    assert isinstance(event, ev.JobReconciled)
    return event


def test_golden_events_of_a_recovery_are_read_and_written() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert [decode(event) for event in golden] == of_recovery()
    assert [json.loads(encode(event)) for event in of_recovery()] == golden


def test_a_reset_subtask_is_not_at_its_end() -> None:
    state = folded(*of_recovery())
    assert (state.end_of_data, state.finished) == ({"history/0"}, set())
    assert numbers(state.splits_done["history"]) == {0, 1, 2, 3, 4, 5, 7}
    assert state.ended == {}
    assert state.reconciled == last()


def test_a_snapshot_keeps_the_recovery() -> None:
    assert state_from_json(state_to_json(folded(*of_recovery()))) == folded(*of_recovery())


def test_the_summary_names_kept_results_and_repeated_subtasks() -> None:
    assert recovery_summary(last()) == (
        "kept from earlier runs: history (7 splits); run again: clean/0 (files of 1 batch are gone that report/0 must "
        "read); history/1 (files of 2 splits are gone that clean/0 must read)"
    )
    assert list(table(last())) == [
        "recovery in epoch 2:",
        "  kept       history (7 splits)",
        "  run again  clean/0: files of 1 batch are gone that report/0 must read",
        "  run again  history/1: files of 2 splits are gone that clean/0 must read",
    ]


def test_the_summary_of_a_run_without_finished_results_says_so() -> None:
    summary = recovery_summary(ev.JobReconciled(2, (), {}, (), 1.0))
    assert summary == "the runs before finished no part of the job; it runs from the start"
