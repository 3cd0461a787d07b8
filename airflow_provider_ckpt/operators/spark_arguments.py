"""A check of the arguments that go to spark-submit.

Without it a list in place of a text would reach the command line and fail at each try, with an error of Python's own.
"""

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
    """Refuse, while the Dag is read, arguments that are no text. A value that Airflow resolves before the task runs
    passes.

    Raises:
        InvalidTaskArgumentError: an argument is no text.
    """
    for argument in (*_LISTS, *_TEXTS):
        value = given.get(argument)
        if value is None or isinstance(value, str) or hasattr(value, "resolve"):
            continue
        problem = "write one text, with commas between several" if argument in _LISTS else "write a text"
        raise InvalidTaskArgumentError(argument=argument, value=value, problem=problem)
