"""The environment of the demo's processes: a temporary Airflow, local Spark, and none of the user's settings."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1]
_FOREIGN = ("AIRFLOW", "SPARK", "PYSPARK", "HADOOP", "AWS_")
_UNWANTED = ("CKPT_STORAGE_OPTIONS", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP")


def environment(user: Mapping[str, str], *, home: Path, root: Path, lake: Path) -> dict[str, str]:
    """Return the environment of a process.

    Args:
        home: AIRFLOW_HOME.
        root: The checkpoint root.
        lake: The folder that the example reads and writes.
    """
    temporary = home / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    kept = {k: v for k, v in user.items() if not k.startswith(_FOREIGN) and k not in _UNWANTED}
    programs = Path(sys.executable).parent  # spark-submit and python3 of this environment
    return {
        **kept,
        "PATH": os.pathsep.join([str(programs), kept.get("PATH", "")]),
        "PYTHONPATH": str(EXAMPLES.parent),
        "PYTHONUNBUFFERED": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Temporary files of a killed JVM or Python are deleted with the demo's folder.
        "TMPDIR": str(temporary),
        "SPARK_LOCAL_DIRS": str(temporary),
        # The optimizing compiler pays off after minutes, and a driver lives for seconds here.
        "SPARK_SUBMIT_OPTS": f"-Djava.io.tmpdir={temporary} -XX:TieredStopAtLevel=1",
        # A machine's host name need not resolve to an address that Spark can bind to.
        "SPARK_LOCAL_IP": "127.0.0.1",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_CKPT_DEFAULT": json.dumps({"conn_type": "ckpt", "host": str(root)}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW_VAR_FLIGHTS_LAKE": str(lake),
    }
