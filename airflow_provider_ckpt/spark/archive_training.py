"""Program that :func:`jvm.class_archive.make` runs. Its JVM loads a driver's classes, and archives them at its exit."""

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
