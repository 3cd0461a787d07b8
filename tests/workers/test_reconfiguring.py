"""Changes of queries while workers run them, and one of the workers is killed during a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from tests.support.waiting import wait_until
from tests.workers.counted_world import Counted
from tests.workers.jobs.rows import FIRST_LIVE
from tests.workers.world import PATIENCE


@pytest.mark.workers
@pytest.mark.timeout(1800)
def test_a_worker_killed_during_a_change_leaves_the_job_consistent(tmp_path: Path) -> None:
    with Counted(tmp_path) as world:
        world.plan()
        master, _, counts = world.master(), world.worker("live", "marked"), world.worker("counts")
        master.wait_for("running")
        world.feed_and_wait()

        change = Reconfiguration().assign_workload("live", max_files_per_batch=3, trigger_interval="100ms")
        change.assign_execution_logic("marked", world.version("two")).assign_workload("counts", state_partitions=3)
        assert world.outcome(change).startswith("completed: "), master.tail()
        world.feed_and_wait()
        assert world.cut_into() == 3

        gate, begun = world.base / "gate", world.base / "begun"
        waits = f"import os, time; open({str(begun)!r}, 'w').close()\n"
        waits += f"    while not os.path.exists({str(gate)!r}): time.sleep(0.05)"
        asked = world.client.reconfigure(
            Reconfiguration()
            .assign_execution_logic("counts", world.version("three", counts=waits))
            .assign_execution_logic("marked", world.version("four"))
        )
        wait_until(begun.exists, counts.tail, seconds=PATIENCE)
        counts.kill()  # during its trial run, before anything is decided
        counts = world.worker("counts")
        outcome = str(world.client.answer(asked, PATIENCE).outcome)
        assert outcome == "failed: counts/0 failed meanwhile; the job continues unchanged"
        world.feed_and_wait()

        asked = world.client.reconfigure(
            Reconfiguration().assign_workload("counts", state_partitions=4).assign_resources("marked", pool_weight=2)
        )
        wait_until(lambda: world.state().reconfigured > 1, master.tail, seconds=PATIENCE)
        counts.kill()  # after the decision: the next worker repartitions the state
        counts = world.worker("counts")
        assert str(world.client.answer(asked, PATIENCE).outcome).startswith("completed: ")
        world.feed_and_wait()
        assert world.cut_into() == 4

        master.kill()  # the decision also holds for another JobMaster and the workers that it deploys to
        master = world.master()
        master.wait_for("resumed", "running")
        world.feed_and_wait()
        world.client.drain()
        assert master.wait(PATIENCE) == 0, master.tail()
        rows = world.rows("lake")
        assert sorted(row["id"] for row in rows) == world.live_ids
        by = {row["by"] for row in rows if row["id"] < FIRST_LIVE + 20}
        assert by == {"one"}
        assert {row["by"] for row in rows if row["id"] >= FIRST_LIVE + 20} == {"two"}


@pytest.mark.workers
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("moment", ["prepare", "sync", "behind the commit point"])
def test_a_driver_killed_in_a_change_applies_all_of_it_or_nothing(tmp_path: Path, moment: str) -> None:
    with Counted(tmp_path) as world:
        driver = world.driver()
        driver.wait_for("running")
        world.feed_and_wait()
        gate, begun = world.base / "gate", world.base / "begun"
        if moment == "sync":  # this batch does not end, while the other query is prepared and asked to pause
            holds = f"import os, time\n    open({str(begun)!r}, 'w').close()\n"
            holds += f"    while not os.path.exists({str(gate)!r}): time.sleep(0.05)\n    return 'held'\n"
            reference = world.version("held")
            path = Path(reference.removesuffix(":job"))
            text = path.read_text().replace('F.lit("held")', 'F.udf(hold, "string")("id")')
            path.write_text(text + f"\n\ndef hold(i):\n    {holds}")
            assert world.outcome(Reconfiguration().assign_execution_logic("marked", reference)).startswith("completed")
            world.feed()
            wait_until(begun.exists, driver.tail, seconds=PATIENCE)
        before = world.state().reconfigured
        waits = f"import os, time; open({str(begun)!r}, 'w').close()\n"
        waits += f"    while not os.path.exists({str(gate)!r}): time.sleep(0.05)"
        two = world.version("two", counts=waits if moment == "prepare" else "")
        change = Reconfiguration().assign_execution_logic("marked", two).assign_execution_logic("counts", two)
        if moment != "prepare":
            change.assign_workload("counts", state_partitions=3)
        trial = world.root / world.job_id / "vertices" / "counts" / "0" / "trial"
        world.client.reconfigure(change)
        if moment == "prepare":
            wait_until(begun.exists, driver.tail, seconds=PATIENCE)
        elif moment == "sync":
            wait_until(lambda: trial.exists() and not list(trial.iterdir()), driver.tail, seconds=PATIENCE)
        else:
            wait_until(lambda: world.state().reconfigured == before + 1, driver.tail, seconds=PATIENCE)
        driver.kill()
        gate.touch()
        decided = moment == "behind the commit point"
        assert world.state().reconfigured == before + decided

        driver = world.driver()
        driver.wait_for("running")
        world.feed_and_wait()
        assert world.cut_into() == (3 if decided else 2)
        last = {row["by"] for row in world.rows("lake") if row["id"] == world.live_ids[-1]}
        assert last == {"two" if decided else "held" if moment == "sync" else "one"}
        world.client.drain()
        assert driver.wait(PATIENCE) == 0, driver.tail()
        assert sorted(row["id"] for row in world.rows("lake")) == world.live_ids
