"""What spark-submit was given reaches the session. In the fast suite: it starts Spark, but no cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.processes import Process

pytestmark = pytest.mark.spark

PROGRAM = """
from airflow_provider_ckpt.spark.session import build_session

session = build_session("name of the job", {"spark.ui.enabled": "false", "spark.test.both": "of the job"})
conf = session.sparkContext.getConf()
print("GOT", session.sparkContext.master, conf.get("spark.test.given"), conf.get("spark.test.both"))
session.stop()
"""


def test_master_and_conf_of_spark_submit_hold_and_the_jobs_own_conf_goes_before_it(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    submit = str(Path(sys.executable).with_name("spark-submit"))
    conf = ["--conf", "spark.test.given=submitted", "--conf", "spark.test.both=submitted"]
    with Process([submit, "--master", "local[1,2]", *conf, str(program)], tmp_path / "log") as process:
        assert process.wait() == 0, process.tail()
        assert "GOT local[1,2] submitted of the job" in process.text(), process.tail()
