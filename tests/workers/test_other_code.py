"""Edits of the job's file while workers run it.

New workers with the edited file are refused; running ones are unaffected.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from tests.support.waiting import wait_until
from tests.workers.counted_world import JOB, Counted
from tests.workers.world import PATIENCE, Member


class Edited(Counted):
    """A world whose job file is a copy that the test edits."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.job = Path(shutil.copy(JOB, base))

    def __enter__(self) -> Edited:
        return self

    def edit(self, mark: str) -> None:
        before, behind = JOB.read_text().split('F.lit("one")')
        self.job.write_text(f'{before}F.lit("{mark}"){behind}')

    def marking(self, *flags: str) -> Member:
        return self.start("worker", "--subtask", "live", "--subtask", "marked", *flags)

    def refused(self, *flags: str) -> str:
        """Start a worker, check that it is refused before it begins anything, and return the message."""
        worker = self.marking(*flags)
        assert worker.wait(PATIENCE) == 2, worker.tail()
        assert worker.lines("started", "waiting") == []
        return str(worker.lines("refused")[-1]["message"])

    def last_mark(self) -> str:
        self.feed_and_wait()
        return str({row["id"]: row["by"] for row in self.rows("lake")}[self.live_ids[-1]])


@pytest.mark.workers
@pytest.mark.timeout(1200)
def test_workers_with_an_edited_file_are_refused(tmp_path: Path) -> None:
    with Edited(tmp_path) as world:
        world.plan()
        master, marks, _ = world.master(), world.marking(), world.worker("counts")
        master.wait_for("running")
        assert world.last_mark() == "one"

        world.edit("two")
        for flags in ((), ("--standby",)):
            assert "apart from comments and layout, in: the function of 'marked'." in world.refused(*flags)
        assert world.last_mark() == "one"
        assert marks.exit_code is None, "it was not overtaken"

        change = Reconfiguration().assign_execution_logic("marked", f"{world.job}:job")
        assert world.outcome(change).startswith("completed: "), marks.tail()
        assert world.last_mark() == "two"
        marks.kill()
        marks = world.marking()
        marks.wait_for("started")
        assert world.last_mark() == "two", "the new file is the right one"

        asked = world.outcome(Reconfiguration().assign_execution_logic("marked", None))
        assert asked.startswith("failed: "), "of the job as it was prepared, and the worker has another file"
        assert "apart from comments and layout, in: the function of 'marked'." in asked
        assert world.last_mark() == "two"

        world.edit("three")
        assert "differs from the file that 'marked' of job 'counted' was given while the job ran" in world.refused()
        assert world.last_mark() == "two"
        world.client.drain()
        assert master.wait(PATIENCE) == 0, master.tail()
        assert sorted(row["id"] for row in world.rows("lake")) == world.live_ids


@pytest.mark.slow
@pytest.mark.workers
@pytest.mark.timeout(600)
def test_workers_are_accepted_after_a_plan_dropped_operators(tmp_path: Path) -> None:
    """The last checkpoint still contains the dropped operators until the next one completes. Every attempt reads it."""
    with Edited(tmp_path) as world:
        world.plan()
        master, worker = world.master(), world.worker("live", "marked", "counts")
        master.wait_for("running")
        world.feed_and_wait()
        world.client.stop()
        assert master.wait(PATIENCE) == 0, master.tail()
        assert worker.wait(PATIENCE) == 0, worker.tail()

        before, _, behind = JOB.read_text().partition("@job.transform(inputs=[live], chain=False, output_mode")
        world.job.write_text(before + behind[behind.index('job.sink("lake"') :].partition('job.sink("cellar"')[0])
        planner = world.start("plan")
        assert planner.wait(PATIENCE) == 2, planner.tail()
        assert "that are gone: cellar, counts" in str(planner.lines("refused")[-1]["message"])
        planner = world.start("plan", "--allow-non-restored-state")
        assert planner.wait(PATIENCE) == 0, planner.tail()

        master, worker = world.master("--no-plan"), world.worker("live", "marked")
        master.wait_for("running")
        world.feed()
        wait_until(lambda: len(world.rows("lake")) == len(world.live_ids), worker.tail, seconds=PATIENCE)
        world.client.drain()
        assert master.wait(PATIENCE) == 0, master.tail()
        assert worker.wait(PATIENCE) == 0, worker.tail()
        assert sorted(row["id"] for row in world.rows("lake")) == world.live_ids
