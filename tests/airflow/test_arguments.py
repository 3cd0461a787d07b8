"""Arguments of the Airflow operator: names, defaults, templates and refusals follow the declared run options."""

from __future__ import annotations

import inspect
from datetime import datetime, timedelta
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, BaseOperator

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job.options.option import Option
from airflow_provider_ckpt.operators.arguments import ARGUMENTS
from airflow_provider_ckpt.operators.job_group import CheckpointedSparkJobGroup
from airflow_provider_ckpt.operators.spark_job import CheckpointedSparkJobOperator

OWN = {"ckpt_conn_id", "conn_ids", "options", "on_clear", "stop_grace", "name", "deferrable", "poll_interval"}
PARAMETERS = inspect.signature(CheckpointedSparkJobOperator.__init__).parameters


def operator(**given: Any) -> CheckpointedSparkJobOperator:
    return CheckpointedSparkJobOperator(**{"task_id": "orders", "job": "orders.py:job", **given})


def test_the_operator_has_the_declared_arguments_and_its_own() -> None:
    assert {name for name in PARAMETERS if name not in ("self", "kwargs")} == {*ARGUMENTS, *OWN}


@pytest.mark.parametrize(("name", "option"), ARGUMENTS.items(), ids=list(ARGUMENTS))
def test_an_argument_has_the_declared_default(name: str, option: Option) -> None:
    expected = inspect.Parameter.empty if name == "job" else None if option.unset_argument else option.default
    assert PARAMETERS[name].default == expected


def test_arguments_that_can_be_text_are_templated() -> None:
    own = set(CheckpointedSparkJobOperator.template_fields) - set(SparkSubmitOperator.template_fields)
    assert own == {
        "ckpt_conn_id",
        "conn_ids",
        "options",
        *(name for name, option in ARGUMENTS.items() if option.kind.is_text),
    }
    assert {"retained_checkpoints", "tolerable_failed_checkpoints", "allow_non_restored_state"} & own == set()
    assert set(CheckpointedSparkJobOperator.template_fields) <= set(vars(operator(task_id="all")))


@pytest.mark.parametrize(
    "given",
    [
        {"checkpoint_interval": "soon"},
        {"checkpoint_interval": 0},
        {"checkpoint_interval": None},
        {"retained_checkpoints": 101},
        {"allow_non_restored_state": "yes"},
        {"stop_at": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"restore": ""},
        {"forget_files": ["a.json"]},
        {"job_params": {"a day": "1"}},
        {"mode": "fast"},
        {"job": "orders.py"},
        {"job": "orders.py:the job"},
        {"batch_recovery": "no"},
        {"deferrable": "no"},
        {"options": "execution.batch.job-recovery.enabled=true"},
        {"batch_recovery": False, "options": {"execution.batch.job-recovery.enabled": "true"}},
    ],
)
def test_invalid_arguments_are_refused_when_the_dag_is_parsed(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(given))):
        operator(**given)


@pytest.mark.parametrize("kind", [CheckpointedSparkJobOperator, CheckpointedSparkJobGroup])
@pytest.mark.parametrize(
    "given", [{"py_files": ["a.py", "b.zip"]}, {"name": 5}, {"packages": ("a:b:1",)}, {"driver_memory": 4}]
)
def test_invalid_spark_submit_arguments_are_refused_when_the_dag_is_parsed(kind: Any, given: dict[str, Any]) -> None:
    (argument,) = given
    named = {"group_id": "orders"} if kind is CheckpointedSparkJobGroup else {"task_id": "orders"}
    with pytest.raises(InvalidInputError, match=argument), DAG("d"):
        kind(**named, job="orders.py:job", **given)


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("execution.batch.job-recovery.enabled", "no", "true or false"),
        ("execution.batch.job-recovery.snapshot.min-pause", "1m30s", "as Flink has it"),
        ("execution.checkpointing.interval", "10 s", "options has no option"),
    ],
)
def test_invalid_flink_options_are_refused_when_the_dag_is_parsed(key: str, text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=key) as caught:
        operator(options={key: text})
    assert message in str(caught.value)


def test_an_option_with_a_flink_key_reaches_the_driver() -> None:
    made = operator(options={"execution.batch.job-recovery.enabled": "false"}, min_pause="1s")
    options = made._options("/root", "orders", "orders~t1")
    assert (options.batch_recovery, options.min_pause) == (False, 1.0)


def test_two_ends_are_refused_when_the_dag_is_parsed() -> None:
    with pytest.raises(InvalidInputError, match="stop_after and drain_at"):
        operator(stop_after="1h", drain_at="2026-01-01T00:00:00Z")


def test_templates_and_task_outputs_are_checked_only_at_run_time() -> None:
    with DAG("shop"):
        before = BaseOperator(task_id="before")
        given = {
            "checkpoint_interval": "{{ params.often }}",
            "stop_at": "{% if x %}{{ y }}{% endif %}",
            "drain_at": before.output,
            "restore": before.output,
            "job_params": {"day": "{{ ds }}", "rows": before.output},
        }
        made = operator(**given)
    assert {name: getattr(made, name) for name in given} == given


def test_valid_arguments_are_accepted_in_every_form() -> None:
    made = operator(checkpoint_interval=timedelta(seconds=5), min_pause="1s", stop_at="2026-01-01T00:00:00Z", root=None)
    assert (made.checkpoint_interval, made.min_pause) == (timedelta(seconds=5), "1s")  # type: ignore[attr-defined]


def test_the_docstring_describes_every_argument() -> None:
    docstring = CheckpointedSparkJobOperator.__doc__ or ""
    assert not [name for name in PARAMETERS if name not in ("self", "kwargs") and f":param {name}: " not in docstring]
    assert "only the last one can be restored" in docstring
