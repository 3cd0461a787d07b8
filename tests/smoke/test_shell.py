"""Jobs that ``ckpt run`` runs from a shell. They run beside the tests of the other files (conftest.py)."""

from __future__ import annotations

import signal

import pytest

from tests.smoke.killed_job import KilledJob
from tests.smoke.readme_example import ReadmeExample

pytestmark = [pytest.mark.smoke, pytest.mark.spark, pytest.mark.xdist_group("smoke")]


def test_a_job_that_is_killed_in_a_batch_releases_every_row_of_history_and_live_once(killed_job: KilledJob) -> None:
    assert "java" in killed_job.killed
    assert killed_job.first_exit == -signal.SIGKILL
    assert killed_job.rows_after_kill == [2, 4, 202, 204]
    assert killed_job.second_exit == 0
    assert killed_job.second_kinds >= {"resumed", "finished"}
    assert killed_job.rows == [2, 4, 6, 8, 202, 204, 206]
    assert killed_job.listed == killed_job.rows


def test_the_first_example_of_the_readme_runs_and_releases_its_rows(readme_example: ReadmeExample) -> None:
    assert readme_example.blocks == 3
    assert readme_example.rows == [(1, "A", 120.0, "day=2026-01-01"), (2, "B", 340.0, "day=2026-01-02")]
