"""The arguments that go on to spark-submit: a list in the place of a text came to a command line, and failed there, in
words of Python's own, at each try of the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError

_LISTS = ("files", "py_files", "archives", "jars", "packages", "exclude_packages", "repositories")
_TEXTS = (
    *("name", "conn_id", "deploy_mode", "driver_class_path", "properties_file", "spark_binary", "yarn_queue"),
    *("executor_memory", "driver_memory", "keytab", "principal", "proxy_user"),
)


def check_spark_arguments(given: Mapping[str, Any]) -> None:
    """When the Dag is read. What Airflow resolves before the task runs is let through. Raises
    InvalidTaskArgumentError."""
    for argument in (*_LISTS, *_TEXTS):
        value = given.get(argument)
        if value is None or isinstance(value, str) or hasattr(value, "resolve"):
            continue
        problem = "write one text, with commas between several" if argument in _LISTS else "write a text"
        raise InvalidTaskArgumentError(argument=argument, value=value, problem=problem)
