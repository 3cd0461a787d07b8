"""Processes that release to one Delta table: several at once, killed, and next to writers that are no jobs."""

from __future__ import annotations

import json
import random
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.lakes.releasing import REACHED
from tests.lakes.tables import ARROW, delta, stage, table_rows
from tests.support.processes import Process
from tests.support.waiting import wait_until

COUNT = 8


@pytest.fixture
def table(tmp_path: Path) -> Path:
    sink = delta(tmp_path / "table")
    handles = [stage(sink, [(number, "a")], number) for number in range(1, COUNT + 1)]
    (tmp_path / "handles.json").write_text(json.dumps(handles))
    return tmp_path / "table"


def releasing(table: Path, name: str, *step: str) -> Process:
    command = [sys.executable, "-m", "tests.lakes.releasing", str(table), str(table.parent / "handles.json"), *step]
    return Process(command, table.parent / f"{name}.log")


def released(table: Path) -> list[int]:
    return [number for number, city in table_rows(table) if city == "a"]


def test_r9_several_processes_release_once_next_to_a_foreign_writer(table: Path) -> None:
    foreign, over = 0, threading.Event()

    def write() -> None:
        nonlocal foreign
        while not over.is_set():
            write_deltalake(table, pa.table([pa.array([0], pa.int32()), pa.array(["f"])], ARROW), mode="append")
            foreign += 1
            over.wait(0.05)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with releasing(table, "1") as first, releasing(table, "2") as second, releasing(table, "3") as third:
            assert [first.wait(), second.wait(), third.wait()] == [0, 0, 0], first.tail() + second.tail() + third.tail()
    finally:
        over.set()
        writer.join()
    assert released(table) == list(range(1, COUNT + 1))
    assert len(table_rows(table)) == COUNT + foreign
    assert DeltaTable(table).transaction_version("ckpt/orders/lake") == COUNT


@pytest.mark.parametrize("step", ["before", "after"])
def test_r9_the_next_process_completes_a_release_killed_at_its_commit(table: Path, step: str) -> None:
    checkpoint = random.Random(step).randint(2, COUNT)
    with releasing(table, "killed", step, str(checkpoint)) as process:
        wait_until((table.parent / REACHED).exists, "the step")
        process.end()
    assert len(released(table)) == (checkpoint - 1 if step == "before" else checkpoint)
    with releasing(table, "next") as process:
        assert process.wait() == 0, process.tail()
    assert released(table) == list(range(1, COUNT + 1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_r9_processes_killed_at_any_step_repeat_and_lose_nothing(table: Path, seed: int) -> None:
    """The releasing process is killed at any of its steps, once a drawn number of releases has been decided."""
    draws = random.Random(seed)
    while len(released(table)) < COUNT:
        wanted = min(COUNT, len(released(table)) + draws.randint(1, 3))
        intent = table / f"_ckpt/orders/lake/intents/{wanted - 1:08d}.json"
        # a killed process has already decided it; without the check this process would be killed at once, forever
        was_decided = intent.exists()
        with releasing(table, "killed") as process:
            wait_until(lambda: len(released(table)) >= wanted if was_decided else intent.exists(), "a release")  # noqa: B023
            process.end()
    delta(table).release([], COUNT)
    with releasing(table, "last") as process:
        assert process.wait() == 0, process.tail()
    assert released(table) == list(range(1, COUNT + 1))
    assert delta(table).last_released() == COUNT
