from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.journal.kinds.reconciliation import JobReconciled, Reset
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.operators.pointer import KEY, Pointer, PointerWriter
from airflow_provider_ckpt.status.status_line import StatusLine, parse_line
from airflow_provider_ckpt.status.status_reporter import StatusReporter
from tests.airflow.support import StateStore, status

POINTER = Pointer("orders", "/root", try_number=1, max_tries=2)


def line(kind: str, **data: Any) -> StatusLine:
    parsed = parse_line(status(kind, **data))
    assert parsed is not None
    return parsed


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def writer(store: StateStore, clock: Clock) -> PointerWriter:
    made = PointerWriter(store, POINTER, clock=clock, warn=lambda text, error: None)
    made.write()
    return made


def test_the_pointer_combines_the_status_lines_of_a_run() -> None:
    pointer = POINTER
    for status_line in (
        line("started", epoch=3, application_id="local-1", checkpoint=0, released=0, spark_ui="http://h:4040"),
        line("running", outputs={"lake": "s3://lake/orders"}),
        line("checkpoint", checkpoint=1),
        line("checkpoint", checkpoint=2, finished_operators=["history"], late_rows=4, unfit_rows=5, malformed_rows=2),
        line("released", checkpoint=2, released=1),
    ):
        pointer = pointer.after(status_line)
    assert pointer.to_json() == {
        "job_id": "orders",
        "root": "/root",
        "try_number": 1,
        "max_tries": 2,
        "generation": 0,
        "status": "RUNNING",
        "epoch": 3,
        "checkpoint": 2,
        "released": 1,
        "finished_operators": ["history"],
        "late_rows": 4,
        "changed_files": 0,
        "unfit_rows": 5,
        "malformed_rows": 2,
        "clear_number": None,
        "application_id": "local-1",
        "spark_ui": "http://h:4040",
        "outputs": {"lake": "s3://lake/orders"},
    }


def test_the_pointer_has_the_recovery_of_a_batch_job() -> None:
    """The driver reports it. A task without a driver reads it in the journal."""
    subtask, reader = SubtaskId("history/1"), SubtaskId("clean/0")
    event = JobReconciled(2, (SubtaskId("history/0"),), {}, (Reset(subtask, ((3, 4),), reader),), 1.0)
    lines = [
        "recovery in epoch 2:",
        "  kept       history",
        "  run again  history/1: files of 1 batch are gone that clean/0 must read",
    ]
    reported: list[StatusLine] = []
    state = JobState("orders")
    event.apply(state)
    StatusReporter(reported.append, "orders", None, "/r").event(event, state)
    updated = POINTER.after(reported[-1]).after(line("checkpoint", checkpoint=1))
    assert updated.to_json()["recovery"] == lines
    assert POINTER.as_of(state).to_json()["recovery"] == lines
    assert "recovery" not in POINTER.to_json()


def test_a_long_recovery_is_cut_and_names_the_command_to_show_it() -> None:
    resets = tuple(Reset(SubtaskId(f"history/{number}"), (), SubtaskId("clean/0")) for number in range(60))
    state = JobState("orders")
    event = JobReconciled(2, (), {}, resets, 1.0)
    event.apply(state)
    reported: list[StatusLine] = []
    StatusReporter(reported.append, "orders", None, POINTER.root).event(event, state)
    command = f"ckpt show orders --root {POINTER.root}"
    for recovery in (POINTER.as_of(state).to_json()["recovery"], POINTER.after(reported[-1]).to_json()["recovery"]):
        assert recovery[-1] == f"  … and 11 more: `{command}`"


def test_r16_a_finished_job_has_released_its_last_checkpoint() -> None:
    pointer = POINTER.after(line("finished", checkpoint=9))
    assert (pointer.status, pointer.checkpoint, pointer.released) == ("FINISHED", 9, 9)


@pytest.mark.parametrize("job_status", ["RESTARTING", "FAILED"])
def test_a_failed_run_has_the_status_of_its_job(job_status: str) -> None:
    """A retry behaves differently for the two."""
    assert POINTER.after(line("failed", status=job_status)).to_json()["status"] == job_status


def test_a_stopped_line_with_released_0_resets_the_release() -> None:
    assert POINTER.after(line("stopped", checkpoint=9, released=0)).released is None


def test_checkpoint_lines_are_written_every_5_s_and_others_at_once() -> None:
    store, clock = StateStore(), Clock()
    pointer = writer(store, clock)
    pointer.record(line("started", epoch=1))
    assert len(store.writes) == 2
    for number in range(1, 50):
        clock.now += 0.1
        pointer.record(line("checkpoint", checkpoint=number))
    assert len(store.writes) == 2
    clock.now += 0.2
    pointer.record(line("checkpoint", checkpoint=50))
    assert [value["checkpoint"] for value in store.writes[2:]] == [50]
    pointer.record(line("source_ended"))
    assert len(store.writes) == 3, "a line that changes nothing needs no write"
    pointer.record(line("released", checkpoint=50, released=50))
    pointer.flush()
    assert store.values[KEY]["released"] == 50


def test_a_failing_store_does_not_stop_the_job_and_is_retried() -> None:
    store, clock = StateStore(), Clock()
    pointer = writer(store, clock)
    store.broken = True
    pointer.record(line("started", epoch=1))
    store.broken = False
    pointer.flush()
    assert store.values[KEY]["epoch"] == 1


def test_an_error_of_the_first_write_is_raised() -> None:
    store = StateStore(broken=True)
    with pytest.raises(ConnectionError):
        writer(store, Clock())


@pytest.mark.parametrize("value", [None, "text", [], {}, {**POINTER.to_json(), "max_tries": "2"}])
def test_an_invalid_stored_value_is_not_a_pointer(value: Any) -> None:
    assert Pointer.from_json(value) is None


def test_a_stored_pointer_is_read_back() -> None:
    stored = POINTER.after(line("checkpoint", checkpoint=4, epoch=2)).to_json()
    pointer = Pointer.from_json(stored)
    assert pointer is not None
    assert (pointer.job_id, pointer.max_tries, pointer.generation, pointer.epoch) == ("orders", 2, 0, 2)
