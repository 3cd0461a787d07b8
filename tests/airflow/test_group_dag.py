"""A group in a whole Dag run: Airflow maps, names and ends its tasks. Spark and the JobMaster are fakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_ckpt import CheckpointedSparkJobGroup
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.operators.group_run import GroupRun
from airflow_provider_ckpt.remote import master as masters
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.status.status_line import StatusLine
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.triggers import job_master
from tests.airflow.group_journal import SUBTASKS, coordinated, ended, prepared
from tests.airflow.support import FakeSparkSubmit, status

JOB = """
from airflow_provider_ckpt import Job

job = Job("orders")
job.param("day")
"""


def test_a_group_maps_named_subtask_tasks_over_the_plan(
    run: Callable[..., Any], spark_submit: FakeSparkSubmit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orders.py").write_text(JOB)
    monkeypatch.setattr("airflow_provider_ckpt.job.job.Job.validate", lambda job: None)
    root, made = tmp_path / "ckpt", tmp_path / "made"

    def master(remote: Any, on_status: Callable[[StatusLine], None], on_master: Any) -> ExitCode:
        ended(coordinated(Journal(open_root(open_storage(root)), "feed")), "FINISHED")
        on_status(StatusLine("finished", "all sources have ended", {"status": "FINISHED"}))
        return ExitCode.FINISHED

    monkeypatch.setattr(masters, "run_master", master)
    monkeypatch.setattr(job_master, "SETTLING", 0.0)
    with DAG("shop_group", schedule=None) as dag:
        CheckpointedSparkJobGroup(
            "orders",
            job=f"{tmp_path}/orders.py:job",
            job_id="feed",
            root=str(root),
            spark={"spark_binary": spark_submit.path},
            job_params={"day": "{{ ds_nodash }}"},
            standbys=1,
        )
    prepared(Journal(open_root(open_storage(made)), "feed"), "the id of the Dag run is made later")
    spark_submit.play(status("prepared"), copy=(made, root))
    for _ in (*SUBTASKS, "standby"):  # the tasks that Airflow starts before the JobMaster
        spark_submit.play(status("finished"))
    # test_group_run.py covers whose deployment it is
    monkeypatch.setattr(GroupRun, "owns", lambda self, state: bool(state.prepared_by))
    dag_run, _ = run(dag)
    assert dag_run.state == "success"
    tasks = dag_run.get_task_instances()
    shown = {ti.rendered_map_index for ti in tasks if ti.task_id == "orders.subtask"}
    assert shown == set(SUBTASKS)
    assert [call.argv[-1] for call in spark_submit.calls].count("--plan") == 1
    assert {len(call.options["params"]["day"]) for call in spark_submit.calls} == {8}
