from __future__ import annotations

from pathlib import Path

import pytest

import airflow_provider_ckpt
from airflow_provider_ckpt.job.error_cause import cause_first, users_frames

PACKAGE = Path(airflow_provider_ckpt.__file__).parent

FAILED_UDF = (Path(__file__).parent / "data" / "failed-udf.txt").read_text()
"""Message of Spark 4.2 for a streaming query whose Python UDF raised an error."""


def test_the_users_exception_comes_first_with_its_line() -> None:
    assert cause_first(FAILED_UDF) == (
        "ValueError: no such shop: 1 (/opt/pipelines/orders.py:5). Job orders RESTARTING: doubled/0: the query of "
        "vertex 'doubled' failed: StreamingQueryException; last completed checkpoint: none"
    )


@pytest.mark.parametrize("text", ["", "the disk is full", "ValueError: x", "a; b"])
def test_a_cause_of_one_line_is_kept(text: str) -> None:
    assert cause_first(text) == text


def test_an_error_of_the_jvm_is_cut_to_its_first_line() -> None:
    text = (
        "job orders FAILED: AnalysisException: [UNRESOLVED_COLUMN] A column `shopp` cannot be resolved.\n'Project"
        " ['shopp]\n+- Relation\n; last completed checkpoint: 4"
    )
    assert cause_first(text) == (
        "job orders FAILED: AnalysisException: [UNRESOLVED_COLUMN] A column `shopp` cannot be resolved."
        "; last completed checkpoint: 4"
    )


def test_the_last_of_chained_exceptions_is_the_cause() -> None:
    text = (
        'failed: Traceback (most recent call last):\n  File "/a.py", line 1, in f\n    x\nKeyError: 1\n\nThe above '
        "exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n"
        '  File "/a.py", line 3, in g\n    y\nshop.NotOpen: closed\n'
    )
    assert cause_first(text) == "shop.NotOpen: closed (/a.py:3). Failed"


def test_a_truncated_traceback_keeps_the_text_before_it() -> None:
    text = 'job j FAILED: Traceback (most recent call last):\n  File "/a.py", line 1, in f'
    assert cause_first(text) == "job j FAILED"


def test_only_the_frames_in_the_users_files_are_shown() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/home/me/other.py", line 1, in before\n'
        "    pass\n"
        "KeyError: 'before'\n"
        "\nDuring handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        f'  File "{PACKAGE}/spark/task/batch_runner.py", line 87, in _guard\n'
        "    self._read(plan)\n"
        '  File "/home/me/job.py", line 9, in price\n'
        "    return 100 / amount\n"
        "           ~~~~^~~~~~~~\n"
        '  File "/venv/lib/python3.11/site-packages/py4j/java_gateway.py", line 1362, in __call__\n'
        "    return_value = get_return_value(\n"
        "ZeroDivisionError: division by zero\n"
        " SQLSTATE: 38000\n"
        "\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:665)\n"
    )
    assert users_frames(text) == (
        '  File "/home/me/job.py", line 9, in price\n    return 100 / amount\n           ~~~~^~~~~~~~\n'
    )


@pytest.mark.parametrize("text", ["", "java.lang.X: no\n\tat a.B", "Traceback (most recent call last):\nKeyError: 1"])
def test_a_traceback_without_user_files_shows_no_frame(text: str) -> None:
    assert users_frames(text) == ""
