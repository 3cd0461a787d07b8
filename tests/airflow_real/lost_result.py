"""Batch job whose subtask ``early/0`` loses its result before it is read, as a group in a whole Airflow."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ckpt.storage.layout import partition_path
from tests.airflow_real.watched_group import A, WatchedGroup
from tests.chaos.released import check_exactly_once
from tests.chaos.world import SMALL, Variant

JOB = Path(__file__).parent / "jobs" / "staged.py"
MAPPED, LISTED = Variant("staged", "staged.py", ("staged",)), Variant("anew", "staged.py", ("anew",))
SUBTASKS = {"early/0", "late/0", "both/0"}
CONF = {name: value for name, value in SMALL.items() if name != "spark.master"}
DAGS = f"""
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_ckpt import CheckpointedSparkJobGroup

FORMS = {{
    "staged": {{}},
    "anew": {{"subtasks": ["early/0", "late", "both"], "batch_recovery": False}},
}}
for name, form in FORMS.items():
    # no task but that of the JobMaster has a second try
    with DAG(name, schedule=None, default_args={{"retries": 0, "retry_delay": timedelta(seconds=1)}}):
        CheckpointedSparkJobGroup(
            "orders",
            job={f"{JOB}:job"!r},
            job_id=name,
            job_params={{"out": name}},
            poll_interval=2,
            spark={{"conf": {CONF!r}}},
            coordinate={{"retries": 1}},
            **form,
        )
"""


def hold_reader(group: WatchedGroup[A], task: str) -> int:
    """Wait until ``early/0`` has finished and its task waits. Return the number of its attempts so far."""
    (group.world.base / "hold").touch()
    group.wait_without_failure(lambda: group.states().get(task) == "deferred", "early/0 has finished")
    before = group.world.state()
    assert (before.status, before.finished) == ("RUNNING", {"early/0"})
    return len(group.logs.attempts("early/0"))


def delete_result(group: WatchedGroup[A]) -> None:
    world = group.world
    files = list((world.root / partition_path(world.job_id, "early", 0)).rglob("*.parquet"))
    assert files
    for file in files:
        file.unlink()


def finish_job(group: WatchedGroup[A]) -> None:
    (group.world.base / "hold").unlink()
    group.wait_without_failure(lambda: set(group.states().values()) == {"success"}, "the group ends green")
    assert group.world.state().status == "FINISHED"


def check_second_run(group: WatchedGroup[A], task: str, begun: int) -> None:
    """Assert that ``early/0`` ran again after its first ``begun`` attempts, and that each row was released once."""
    attempts = group.logs.attempts("early/0")[begun:]
    assert len({attempt.epoch for attempt in attempts}) == 1, "of the next deployment"
    assert len(attempts) == 2, f"its planner's, and a worker's: {attempts}"
    logs = [group.airflow.task_log(group.dag, f"orders.{name}") for name in ("subtask", task)]
    assert "early/0 has to run again, in the deployment" in "".join(logs)
    check_exactly_once(group.world)
