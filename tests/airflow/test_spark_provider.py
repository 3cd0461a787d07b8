"""The check of the Spark provider's private names."""

from __future__ import annotations

import ast
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

import airflow_provider_ckpt
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.hooks import spark_provider
from airflow_provider_ckpt.operators.spark_job import CheckpointedSparkJobOperator
from tests.airflow.support import FakeSparkSubmit

PACKAGE = Path(airflow_provider_ckpt.__file__).parent
HOOKS = ("hooks/spark_submit.py", "hooks/deferrable_cluster.py", "operators/spark_job.py", "operators/group_task.py")
OPERATORS = ("operators/spark_job.py", "operators/deferrable_submit.py", "operators/group_task.py")


def private_names(files: tuple[str, ...]) -> set[str]:
    """Return the private attributes that the files read, set or override."""
    names = set()
    for name in files:
        for node in ast.walk(ast.parse((PACKAGE / name).read_text())):
            if isinstance(node, ast.Attribute):
                names.add(node.attr)
            elif isinstance(node, ast.FunctionDef):
                names.add(node.name)
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def test_d24_every_private_name_in_use_is_checked(spark_submit: FakeSparkSubmit) -> None:
    operator = SparkSubmitOperator(task_id="t", application="a.py")
    hook = operator._get_hook()
    of_hook = {*spark_provider.HOOK_METHODS, *spark_provider.HOOK_FIELDS}
    of_operator = {*spark_provider.OPERATOR_METHODS, *spark_provider.OPERATOR_FIELDS}
    assert {name for name in private_names(HOOKS[:2]) if hasattr(hook, name)} <= of_hook
    assert {name for name in private_names(OPERATORS) if hasattr(operator, name)} <= of_operator | of_hook
    assert of_hook <= private_names(HOOKS)
    assert of_operator <= private_names(OPERATORS)


def test_d24_the_installed_provider_is_the_newest_tried_version() -> None:
    installed = version(spark_provider.PACKAGE)
    assert installed in (spark_provider.NEWEST_TRIED, "6.3.2")  # 6.3.2 is the newest for Python 3.10


@pytest.mark.parametrize(("holder", "name"), [(SparkSubmitHook, "_mask_cmd"), (SparkSubmitOperator, "_get_hook")])
def test_d24_a_provider_without_a_method_is_refused_when_the_dag_is_parsed(
    holder: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(holder, name)
    monkeypatch.setattr(spark_provider, "version", lambda package: "99.1.0")
    with pytest.raises(InvalidInputError, match="the newest version that was tried: pip") as raised:
        CheckpointedSparkJobOperator(task_id="t", job="orders.py:job", root="/tmp/ckpt")
    message = str(raised.value)
    assert (
        f"apache-airflow-providers-apache-spark 99.1.0 cannot be used: its {holder.__name__} has no {name}" in message
    )
    assert f"pip install 'apache-airflow-providers-apache-spark=={spark_provider.NEWEST_TRIED}'" in message


def test_d24_a_provider_with_a_renamed_hook_field_is_refused(spark_submit: FakeSparkSubmit) -> None:
    hook = SparkSubmitOperator(task_id="t", application="a.py")._get_hook()
    assert spark_provider.checked(hook) is hook
    del hook._post_submit_commands
    with pytest.raises(InvalidInputError, match="its SparkSubmitHook has no _post_submit_commands,"):
        spark_provider.checked(hook)
