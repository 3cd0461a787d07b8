"""The private names of Airflow's Spark provider that this package uses, and their check.

A provider that lacks such a name may submit another application than this package's driver, or fail in the middle of a
task. This package checks the classes when an operator is created, and each hook before its submission.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_provider_ckpt.errors import InvalidInputError

PACKAGE = "apache-airflow-providers-apache-spark"
NEWEST_TRIED = "6.3.4"
"""Version of the provider with which the tests of this release ran."""

HOOK_METHODS = ("_build_spark_submit_command", "_mask_cmd", "_process_spark_submit_log")
HOOK_FIELDS = (
    *("_application_args", "_conf", "_conn_id", "_connection", "_env", "_env_vars", "_exception_anchor_seen"),
    *("_is_kubernetes", "_is_yarn", "_kubernetes_application_id", "_kubernetes_driver_pod", "_last_submit_log_lines"),
    *("_name", "_post_submit_commands", "_py_files", "_spark_exit_code", "_submit_sp", "_yarn_application_id"),
)
OPERATOR_METHODS = ("_get_hook",)
OPERATOR_FIELDS = (
    "_conn_id",
    "_hook",
    "_status_poll_interval",
    "_track_driver_via_k8s_api",
    "_yarn_track_via_rm_api",
)


def refuse_unfit_provider() -> None:
    """Refuse a provider whose classes lack a method that this package overrides or calls. Raises InvalidInputError."""
    _refuse(SparkSubmitHook, HOOK_METHODS)
    _refuse(SparkSubmitOperator, OPERATOR_METHODS)


def refuse_unfit_operator(operator: SparkSubmitOperator) -> None:
    """Refuse an Airflow operator that lacks a field which this package reads or sets. Raises InvalidInputError."""
    _refuse(operator, OPERATOR_FIELDS, SparkSubmitOperator.__name__)


def checked(hook: SparkSubmitHook) -> SparkSubmitHook:
    """Return the hook if it has every field that this package reads or sets. Raises InvalidInputError otherwise."""
    _refuse(hook, HOOK_FIELDS, SparkSubmitHook.__name__)
    return hook


def _refuse(holder: Any, names: tuple[str, ...], kind: str | None = None) -> None:
    lacking = [name for name in names if not hasattr(holder, name)]
    if lacking:
        raise InvalidInputError(
            "{package} {found} cannot be used: its {kind} has no {lacking}, which this release needs. It is too new "
            "if it is newer than {tried}, the newest version that was tried: pip install '{package}=={tried}'",
            package=PACKAGE,
            found=version(PACKAGE),
            kind=kind or holder.__name__,
            lacking=", ".join(lacking),
            tried=NEWEST_TRIED,
        )
