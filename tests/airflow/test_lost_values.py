"""Arguments that no run could use, for example because a template or XCom was empty, and the tasks' reaction."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ckpt import (
    CheckpointedJobCleanupOperator,
    CheckpointedJobReconfigureOperator,
    CheckpointedJobRescaleOperator,
    CheckpointedJobStopOperator,
    CheckpointedSparkJobGroup,
    CheckpointedSparkJobOperator,
    CheckpointSensor,
)
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.hooks.rendered import refuse_lost
from airflow_provider_ckpt.journal.events import StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.storage import Storage
from tests.airflow.support import FakeSparkSubmit, StateStore, context

TEMPLATE = "{{ ti.xcom_pull('other') }}"


@pytest.fixture
def finished(root: Storage, journal: Callable[[str], Journal], monkeypatch: pytest.MonkeyPatch) -> None:
    """Create a FINISHED job under the connection's root."""
    monkeypatch.setenv("AIRFLOW_CONN_CKPT_DEFAULT", json.dumps({"conn_type": "ckpt", "host": root.uri}))
    shop = journal("shop")
    shop.claim("a", Worker(), 1.0)
    shop.write(StatusChanged(JobStatus.FINISHED, 4.0, None))


def _rendered(task: BaseOperator, name: str, value: Any) -> Any:
    """Set ``name`` to a value as Airflow does when it renders the task."""
    assert name in task.template_fields
    setattr(task, name, value)
    return task


@pytest.mark.parametrize("value", [None, "", " "])
@pytest.mark.parametrize("name", ["job_id", "root", "job_params"])
def test_an_empty_rendered_argument_starts_no_other_job(
    name: str, value: Any, finished: None, spark_submit: FakeSparkSubmit, tmp_path: Path
) -> None:
    (tmp_path / "orders.py").write_text("")
    given: Any = {name: TEMPLATE}
    task = CheckpointedSparkJobOperator(
        task_id="orders", job=f"{tmp_path}/orders.py:job", spark_binary=spark_submit.path, **given
    )
    store = StateStore()
    with pytest.raises(AirflowFailException, match=f"{name}={value!r} cannot be used: it was given"):
        _rendered(task, name, value).execute(context(store))
    assert not store.writes
    assert not spark_submit.calls


LOST: dict[str, tuple[str, Any, Any, str]] = {
    "job_id": ("job_id", "{{ params.x }}", "None", "job_id='None'"),
    "a part of job_id": ("job_id", "a-{{ ti.xcom_pull('x') }}", "a-None", "job_id='a-None'"),
    "the end of job_id": ("job_id", "orders{{ params.x }}", "ordersNone", "job_id='ordersNone'"),
    "root": ("root", "{{ params.x }}", "None", "root='None'"),
    "a part of root": ("root", "s3://lake/{{ params.x }}/ckpt", "s3://lake/None/ckpt", "root='s3://lake/None/ckpt'"),
    "a secret root": ("root", "s3://k:{{ params.x }}@lake", "s3://k:None@lake", r"root='s3://\*+@lake'"),
    "job_params": ("job_params", {"in": "{{ params.x }}/in"}, {"in": "None/in"}, r"job_params\['in'\]='None/in'"),
    "native": ("job_params", {"in": "{{ params.x }}"}, {"in": None}, r"job_params\['in'\]=None"),
}
"""Argument, as the Dag writes it, as Airflow renders it if there is no value, and how the refusal begins."""


@pytest.mark.parametrize(("name", "written", "rendered", "message"), LOST.values(), ids=list(LOST))
def test_a_rendered_none_in_the_jobs_identity_is_refused(
    name: str, written: Any, rendered: Any, message: str, finished: None, spark_submit: FakeSparkSubmit, tmp_path: Path
) -> None:
    (tmp_path / "orders.py").write_text("")
    given: Any = {name: written}
    task = CheckpointedSparkJobOperator(
        task_id="orders", job=f"{tmp_path}/orders.py:job", spark_binary=spark_submit.path, **given
    )
    store = StateStore()
    with pytest.raises(AirflowFailException, match=f"{message} cannot be used: a template in it gave None"):
        _rendered(task, name, rendered).execute(context(store))
    assert not store.writes
    assert not spark_submit.calls


def test_a_param_without_a_value_is_rendered_as_none_and_refused(
    finished: None, spark_submit: FakeSparkSubmit, tmp_path: Path
) -> None:
    (tmp_path / "orders.py").write_text("")
    with DAG("shop", schedule=None):
        task = CheckpointedSparkJobOperator(
            task_id="orders",
            job=f"{tmp_path}/orders.py:job",
            spark_binary=spark_submit.path,
            job_id="a-{{ params.x }}",
            job_params={"in": "{{ params.x }}/in"},
        )
    task.render_template_fields({"params": {"x": None}})
    assert (task.job_id, vars(task)["job_params"]) == ("a-None", {"in": "None/in"})
    with pytest.raises(AirflowFailException, match="job_id='a-None' cannot be used: a template in it gave None"):
        task.execute(context(StateStore()))


KEPT: dict[str, tuple[str, Any, Any]] = {
    "another word": ("job_id", "{{ params.x }}", "Nonesuch"),
    "as the Dag writes it": ("job_params", {"filter": "None"}, {"filter": "None"}),
    "before a template": ("job_id", "None-{{ ds }}", "None-2026-01-01"),
    "a default": ("job_id", "{{ params.x or 'all' }}", "all"),
}


@pytest.mark.parametrize(("name", "written", "rendered"), KEPT.values(), ids=list(KEPT))
def test_a_none_that_does_not_come_from_a_template_is_accepted(name: str, written: Any, rendered: Any) -> None:
    given: Any = {"job_id": "shop", name: written}
    task = CheckpointedSparkJobOperator(task_id="orders", job="orders.py:job", **given)
    refuse_lost(_rendered(task, name, rendered), task._given)


@pytest.mark.parametrize("name", ["job_id", "root"])
def test_a_number_from_a_native_template_is_refused(name: str, finished: None) -> None:
    given: Any = {name: "{{ ds_nodash }}"}
    task = CheckpointedSparkJobOperator(task_id="orders", job="orders.py:job", **given)
    with pytest.raises(AirflowFailException, match=f"{name}=20260328 cannot be used: .* int, and it must be a text"):
        _rendered(task, name, 20260328).execute(context(StateStore()))


ASKING = (CheckpointedJobStopOperator, CheckpointedJobCleanupOperator, CheckpointSensor)


@pytest.mark.parametrize("kind", ASKING)
def test_a_rendered_job_id_none_is_refused(kind: Any, finished: None) -> None:
    task = _rendered(kind(task_id="asking", job_id=TEMPLATE), "job_id", "None")
    with pytest.raises(AirflowFailException, match="job_id='None' cannot be used: a template in it gave None"):
        (task.poke if kind is CheckpointSensor else task.execute)(context(StateStore()))


@pytest.mark.parametrize("name", ["job_id", "job", "job_params", "root"])
def test_a_clean_up_with_a_lost_argument_fails_permanently(name: str, finished: None, root: Storage) -> None:
    given: dict[str, Any] = {"job_id": "shop", "job": "orders.py:job", "job_params": {"day": "1"}, "root": root.uri}
    task = CheckpointedJobCleanupOperator(task_id="clean", **given)
    with pytest.raises(AirflowFailException, match=f"{name}=None cannot be used: it was given"):
        _rendered(task, name, None).execute(context(StateStore()))


@pytest.mark.parametrize("value", [None, ""])
@pytest.mark.parametrize("name", ["since", "finished", "watermark", "checkpoint", "root"])
def test_a_sensor_with_a_lost_condition_fails_permanently(name: str, value: Any, finished: None) -> None:
    given: dict[str, Any] = {name: TEMPLATE}
    task = CheckpointSensor(task_id="wait", job_id="shop", **given)
    with pytest.raises(AirflowFailException, match=f"{name}={value!r} cannot be used: it was given"):
        _rendered(task, name, value).poke(context(StateStore()))


def test_a_request_with_a_lost_root_fails_permanently(finished: None) -> None:
    task = CheckpointedJobStopOperator(task_id="stop", job_id="shop", root=TEMPLATE)
    with pytest.raises(AirflowFailException, match="root=None cannot be used: it was given"):
        _rendered(task, "root", None).execute(context(StateStore()))


@pytest.mark.parametrize("kind", [CheckpointedJobCleanupOperator, CheckpointSensor])
@pytest.mark.parametrize("task_id", [3, "order"])
def test_an_invalid_job_task_id_fails_permanently(kind: Any, task_id: Any, root: Storage) -> None:
    with DAG("d", schedule=None):
        asking = kind(task_id="asking", job_task_id=task_id, root=root.uri)
        CheckpointedJobStopOperator(task_id="orders", job_id="shop")
    run = asking.execute if kind is CheckpointedJobCleanupOperator else asking.poke
    with pytest.raises(AirflowFailException, match=f"job_task_id={task_id!r} cannot be used: the Dag has no such task"):
        run(context(StateStore()))


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "nothing to change": (CheckpointedJobReconfigureOperator, {}, "no change is given"),
    "a text of changes": (CheckpointedJobReconfigureOperator, {"assign_workload": "{}"}, "a mapping of operators"),
    "operators without settings": (CheckpointedJobReconfigureOperator, {"assign_resources": {"q": 2}}, "its settings"),
    "settings that are no names": (CheckpointedJobReconfigureOperator, {"assign_workload": {"q": {2: 2}}}, "by name"),
    "a setting there is not": (CheckpointedJobReconfigureOperator, {"assign_workload": {"q": {"x": 2}}}, "cannot be"),
    "a list of logic": (CheckpointedJobReconfigureOperator, {"assign_execution_logic": ["q"]}, "mapping of operators"),
    "half a subtask": (
        CheckpointedJobRescaleOperator,
        {"source": "h", "parallelism": 2.5},
        "give a whole number from 1 to",
    ),
    "no subtask": (
        CheckpointedJobRescaleOperator,
        {"source": "h", "parallelism": "0"},
        "give a whole number from 1 to",
    ),
    "a text that says no": (CheckpointedJobStopOperator, {"wait": "false"}, "wait='false' is not possible"),
}


@pytest.mark.parametrize(("kind", "given", "message"), REFUSED.values(), ids=list(REFUSED))
def test_an_invalid_request_is_refused_when_the_dag_is_parsed(kind: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        kind(task_id="ask", job_id="shop", **given)


def test_changes_rendered_as_text_fail_permanently(finished: None) -> None:
    given: Any = TEMPLATE
    task = CheckpointedJobReconfigureOperator(task_id="ask", job_id="shop", assign_workload=given)
    with pytest.raises(AirflowFailException, match="give a mapping of operators"):
        _rendered(task, "assign_workload", '{"q": {"parallelism": 2}}').execute(context(StateStore()))


@pytest.mark.parametrize("subtasks", ["history", [], [""], [3], {"history": None}])
def test_an_invalid_subtasks_argument_is_refused_when_the_dag_is_parsed(subtasks: Any) -> None:
    with (
        DAG("shop", schedule=None),
        pytest.raises(InvalidInputError, match=r"subtasks=.* cannot be used"),
    ):
        CheckpointedSparkJobGroup("orders", job="orders.py:job", subtasks=subtasks)
