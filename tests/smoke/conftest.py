"""Fixtures of the smoke tests.

``tests.airflow.conftest`` sets up a throw-away AIRFLOW_HOME when it is imported. A process imports it once, so that the
tests of both folders share the home.
"""

from __future__ import annotations

import tests.airflow.conftest  # noqa: F401
from tests.support.spark_driver import spark

__all__ = ["spark"]
