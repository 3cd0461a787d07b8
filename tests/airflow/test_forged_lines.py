"""Data and prints cannot forge a status line of a driver, nor end the reading of its output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException

from airflow_provider_ckpt.operators.pointer import KEY
from airflow_provider_ckpt.operators.spark_job import CheckpointedSparkJobOperator
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers.condition import Verdict
from airflow_provider_ckpt.triggers.driver_verdict import DriverVerdict
from airflow_provider_ckpt.triggers.release import ReleaseEvent
from tests.airflow.support import FakeSparkSubmit, StateStore, context, status

FORGED = "CKPT " + json.dumps(
    {
        "kind": "finished",
        "message": "all is well",
        "status": "FINISHED",
        "checkpoint": 99,
        "released": 99,
        "finished_operators": ["everything"],
        "outputs": {"lake": "s3://attacker/rows"},
        "spark_ui": "javascript:alert(1)",
    }
)


def operator(folder: Path, root: Storage, **given: Any) -> CheckpointedSparkJobOperator:
    (folder / "orders.py").write_text("")
    return CheckpointedSparkJobOperator(task_id="orders", job=f"{folder}/orders.py:job", root=root.uri, **given)


def test_a_forged_line_in_the_output_changes_nothing(
    spark_submit: FakeSparkSubmit, root: Storage, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spark_submit.play(status("started", epoch=1), f"ValueError: {FORGED}", f" {FORGED}", status("failed", "x"), exit=1)
    store, run = StateStore(), context(StateStore())
    run["task_state_store"] = store
    with pytest.raises(AirflowException, match="orders: x"):
        operator(tmp_path, root, job_id="orders", spark_binary=spark_submit.path).execute(run)
    assert (store.values[KEY]["status"], store.values[KEY]["checkpoint"]) == ("FAILED", None)
    assert "javascript" not in json.dumps([store.writes, run["ti"].pushed])
    logged = capfd.readouterr().out
    assert logged.count("looks like a status line and is ignored: it lacks the token") == 1
    assert "everything" in logged  # it is shown as any other output


def test_a_status_line_with_wrong_types_does_not_end_the_reading(
    spark_submit: FakeSparkSubmit, root: Storage, tmp_path: Path
) -> None:
    """A number for finished_operators used to end the thread with a TypeError, and the task with it."""
    wrong = status("checkpoint", checkpoint=2, finished_operators=7)
    spark_submit.play(status("started", epoch=1), wrong, status("finished", epoch=1, checkpoint=3))
    result = operator(tmp_path, root, spark_binary=spark_submit.path).execute(context(StateStore()))
    assert (result["status"], result["checkpoint"]) == ("FINISHED", 3)


def test_an_operator_named_like_a_connections_setting_is_not_masked(
    spark_submit: FakeSparkSubmit, root: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The XCom used to show "***" for each text in a connection's extra, such as a group.id of Kafka."""
    extra = {"bootstrap.servers": "b:9092", "group.id": "orders", "sasl.password": "s3cr3tPW"}
    connection = {"conn_type": "kafka", "login": "me", "password": "daily", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(connection))
    outputs = {"orders": "s3://orders/orders"}
    line = status("finished", epoch=1, checkpoint=3, finished_operators=["orders", "daily"], outputs=outputs)
    spark_submit.play(line)
    store = StateStore()
    task = operator(tmp_path, root, job_id="orders", spark_binary=spark_submit.path, conn_ids=["shop"])
    result = task.execute(context(store))
    assert (result["job_id"], result["finished_operators"]) == ("orders", ["orders", "daily"])
    assert store.values[KEY]["outputs"] == outputs


def test_terminal_escapes_and_line_breaks_are_escaped_in_log_and_xcom(
    spark_submit: FakeSparkSubmit, root: Storage, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = "x\n[2026-01-01] ERROR all is lost \x1b[2J \ud800"
    spark_submit.play(
        "cell \x1b]0;title\x07", status("warning", bad), status("finished", bad, epoch=1, finished_operators=[bad])
    )
    store = StateStore()
    result = operator(tmp_path, root, spark_binary=spark_submit.path).execute(context(store))
    logged = capfd.readouterr().out
    assert "cell \\x1b]0;title\\x07" in logged
    assert "x\\n[2026-01-01] ERROR all is lost \\x1b[2J \\ud800" in logged
    assert not any(line.startswith("[2026-01-01] ERROR") for line in logged.splitlines())
    assert result["finished_operators"] == ["x\\n[2026-01-01] ERROR all is lost \\x1b[2J \\ud800"]
    json.dumps(store.values, ensure_ascii=False).encode()


def test_the_event_of_a_trigger_is_printable() -> None:
    bad, shown = "x\n\x1b[2J\ud800", "x\\n\\x1b[2J\\ud800"
    result = {"job_id": bad, "finished_operators": [bad], "checkpoint": 3}
    assert Verdict("failed", bad).message == shown
    assert DriverVerdict("failed", bad, result).to_json() == {
        "outcome": "failed",
        "message": shown,
        "result": {"job_id": shown, "finished_operators": [shown], "checkpoint": 3},
    }
    event = ReleaseEvent(bad, 2, 1, None, 1.0, None, 4, {bad: {"rows": 4}}, 0, 0, 0).to_json()
    assert (event["job_id"], event["sinks"]) == (shown, {shown: {"rows": 4}})


JOB = """
from pyspark.sql.functions import udf

from airflow_provider_ckpt import FileSink, Job

print({forged!r}, flush=True)
job = Job("orders")

@job.source(bounded=True)
def orders(read):
    return read.schema("id STRING").json({raw!r})

@udf("string")
def refuse(cell):
    raise ValueError(cell)

@job.transform(inputs=[orders])
def refused(rows):
    return rows.select(refuse("id").alias("id"))

job.sink("files", refused, FileSink({out!r}, format="json"))
"""


@pytest.mark.spark
@pytest.mark.slow
def test_data_and_prints_of_a_real_driver_cannot_forge_status_lines(
    root: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A cell that Spark quotes in its error gave the task "FINISHED, checkpoint 99" and a link to javascript."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/1.json").write_text(json.dumps({"id": f"\n{FORGED}\n"}) + "\n")
    store = StateStore()
    run = context(store)
    task = operator(
        tmp_path, root, job_id="orders", restart_attempts=0, conf={"spark.ui.enabled": "false"}, ckpt_conn_id=None
    )
    (tmp_path / "orders.py").write_text(JOB.format(forged=FORGED, raw=str(tmp_path / "raw"), out=str(tmp_path / "out")))
    with pytest.raises(AirflowException, match="Job orders"):
        task.execute(run)
    pointer = store.values[KEY]
    assert (pointer["status"], pointer["epoch"]) in {("FAILED", 1), ("RESTARTING", 1)}
    assert pointer["checkpoint"] != 99
    assert "attacker" not in json.dumps([pointer["outputs"], run["ti"].pushed])
    assert "lacks the token" in capfd.readouterr().out
