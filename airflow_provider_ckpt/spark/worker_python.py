"""The Python program of a job's Python workers. PySpark reads it only from the environment."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping

from airflow_provider_ckpt.spark.errors import DriverPythonError, PythonMissingError

VARIABLE = "PYSPARK_PYTHON"
WORKERS = "spark.pyspark.python"
DRIVER = "spark.pyspark.driver.python"


def worker_python(given: Mapping[str, str], *, is_local: bool, is_submitted: bool) -> str | None:
    """Return the setting for the workers' Python, or None if the user has none.

    Args:
        given: the user's settings for Spark.
        is_local: the workers run on this host, so their Python must be here.
        is_submitted: ``spark-submit`` has started this process, with the Python that the user has set for the driver.

    Raises PythonMissingError and DriverPythonError.
    """
    driver, workers = given.get(DRIVER), given.get(WORKERS)
    if driver is not None and not is_submitted and not _is_this(driver):
        raise DriverPythonError(value=driver, running=sys.executable)
    if workers is not None and is_local and shutil.which(workers) is None:
        raise PythonMissingError(value=workers)
    return workers


def _is_this(python: str) -> bool:
    found = shutil.which(python)
    return found is not None and os.path.abspath(found) == os.path.abspath(sys.executable)
