from __future__ import annotations

import pytest

from airflow_provider_ckpt.hooks.status_line import parse
from tests.airflow.support import status


def test_a_status_line_is_read_with_its_data() -> None:
    line = parse(status("checkpoint", "checkpoint 7 completed", checkpoint=7, epoch=2) + "\n")
    assert line is not None
    assert (line.kind, line.message, line.data["checkpoint"]) == ("checkpoint", "checkpoint 7 completed", 7)


def test_a_progress_bar_in_front_does_not_hide_a_status_line() -> None:
    line = parse("[Stage 3:====>   (2 + 1) / 4] " + status("finished"))
    assert line is not None
    assert line.kind == "finished"


def test_a_kind_that_a_newer_driver_knows_is_a_status_line_too() -> None:
    line = parse(status("unheard-of", "something new"))
    assert line is not None
    assert line.message == "something new"


@pytest.mark.parametrize(
    "line",
    [
        "26/01/01 INFO SparkContext: Running Spark version 4.2.0",
        "CKPT {not json",
        "CKPT {not json}",
        'CKPT {"kind": 7}',
        'CKPT ["finished"]',
        'XCKPT {"kind": "finished"}',
        "CKPT finished",
    ],
)
def test_what_is_no_status_line_is_left_alone(line: str) -> None:
    assert parse(line) is None
