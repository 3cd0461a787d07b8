"""The program whose JVM writes a class archive. It loads the classes that a driver loads at its start.

:func:`jvm.class_archive.make` runs this module. The JVM writes the archive when it ends.
"""

from __future__ import annotations

from airflow_provider_ckpt.spark.app.session import build_session
from airflow_provider_ckpt.spark.app.warm_up import warm_up
from airflow_provider_ckpt.spark.main import stop_session

CONF = {
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.port": "0",
}

if __name__ == "__main__":
    warm_up(build_session("class-archive", CONF), stateful=True)
    stop_session()
