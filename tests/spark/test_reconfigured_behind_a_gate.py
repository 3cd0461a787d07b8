"""Queries that are changed while a gate holds their staged output.

All of it is released once, when the gate opens.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt import PendingRelease
from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.subtasklog.records import Batch
from tests.spark.counting_job import UserScript, check_counting, counting, counting_version, state_partitions
from tests.spark.harness import World
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

CHANGES = ["logic", "cut", "both"]


@pytest.mark.parametrize("kind", CHANGES)
def test_held_output_is_released_once_after_a_reconfiguration(world: World, kind: str) -> None:
    world.put_ids("live", 2, 10)
    door, outcomes = Path(world.path("gate")) / "open", list[RequestOutcome]()

    def is_open(pending: PendingRelease) -> bool:
        return door.exists()

    def staged(rows: int) -> None:
        def are_there() -> bool:
            batches = [record for _, record in world.records("marked") if isinstance(record, Batch)]
            counts: list[int] = [batch.handles["out"]["rows"] for batch in batches if "out" in batch.handles]
            return sum(counts) >= rows

        wait_until(are_there, "staged rows")
        behind = world.state().last_completed
        wait_until(lambda: world.state().last_completed > behind + 1, "checkpoints that cover them")

    def work(script: UserScript) -> None:
        staged(20)
        # a checkpoint covers rows that counts has not read, and counts would have no state to repartition
        wait_until(lambda: state_partitions(world) is not None, "a batch of counts")
        change = Reconfiguration()
        if kind != "cut":
            change = change.assign_execution_logic("marked", counting_version(world, "v2"))
        if kind != "logic":
            change = change.assign_workload("counts", state_partitions=3)
        outcomes.append(script.change(change))
        world.put_ids("live", 1, 10, start=20)
        staged(30)

    with UserScript(world, work):
        run = world.run(counting(world, is_open))
    assert (run.status, [outcome.result.value for outcome in outcomes]) == ("STOPPED", ["completed"]), (
        run.cause,
        outcomes,
    )
    assert world.released_count() == 0

    door.touch()
    with UserScript(world, lambda script: script.put(30)):
        run = world.run(counting(world, is_open))
    assert run.status == "STOPPED", run.cause
    check_counting(world, 40)
    by = {row["id"]: row["by"] for row in world.released()}
    assert {by[i] for i in range(20)} == {"one"}
    assert {by[i] for i in range(20, 40)} == {"one" if kind == "cut" else "two"}
    assert kind == "logic" or state_partitions(world) == 3
