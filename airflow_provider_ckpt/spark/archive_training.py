"""The program whose JVM writes a class archive. It warms Spark up, and so loads what a driver loads at its start.

:func:`launch.class_archive.make` runs this module. The JVM gets its options from the environment, and writes the
archive when it ends.
"""

from __future__ import annotations

from airflow_provider_ckpt.spark.main import stop_session
from airflow_provider_ckpt.spark.session import build_session
from airflow_provider_ckpt.spark.warm_up import warm_up

CONF = {
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.port": "0",
}

if __name__ == "__main__":
    warm_up(build_session("class-archive", CONF), stateful=True)
    stop_session()
