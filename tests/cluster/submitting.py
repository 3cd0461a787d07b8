"""Command that submits a job to a standalone cluster."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ckpt.packaging import PACKAGE, package_zip
from tests.chaos.world import Variant, World
from tests.cluster.standalone import SPARK_HOME, Standalone

COUNTS = Variant("counts", "counts.py", ("out",), counts=True)


def submit_command(world: World, cluster: Standalone, executor_python: Path, driver_python: Path) -> list[str]:
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.pyspark.python": str(executor_python),
        "spark.pyspark.driver.python": str(driver_python),
    }
    return [
        "env",
        "-u",
        "PYTHONPATH",
        "-u",
        "PYSPARK_PYTHON",
        "-u",
        "PYSPARK_DRIVER_PYTHON",
        f"SPARK_HOME={SPARK_HOME}",
        str(SPARK_HOME / "bin" / "spark-submit"),
        "--master",
        cluster.url,
        *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
        "--py-files",
        str(package_zip()),
        str(PACKAGE / "spark" / "main.py"),
        "--options",
        world.options(),
    ]
