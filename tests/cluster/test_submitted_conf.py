"""Arguments of spark-submit reach the session. The test is in the fast suite: it starts Spark, but no cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.processes import Process

pytestmark = pytest.mark.spark

# The answer goes into a file, because Spark's log could split its line on a shared pipe.
PROGRAM = """
import json, pathlib, sys

from airflow_provider_ckpt.spark.app.session import build_session

session = build_session("name of the job", {"spark.ui.enabled": "false", "spark.test.both": "of the job"})
conf = session.sparkContext.getConf()
got = [session.sparkContext.master, conf.get("spark.test.given"), conf.get("spark.test.both")]
pathlib.Path(sys.argv[1]).write_text(json.dumps(got))
session.stop()
"""


@pytest.mark.slow
def test_the_conf_of_a_job_overrides_that_of_spark_submit(tmp_path: Path) -> None:
    program, answer = tmp_path / "program.py", tmp_path / "answer"
    program.write_text(PROGRAM)
    submit = str(Path(sys.executable).with_name("spark-submit"))
    conf = ["--conf", "spark.test.given=submitted", "--conf", "spark.test.both=submitted"]
    with Process([submit, "--master", "local[1,2]", *conf, str(program), str(answer)], tmp_path / "log") as process:
        assert process.wait() == 0, process.tail()
    assert json.loads(answer.read_text()) == ["local[1,2]", "submitted", "of the job"]
