"""What a look may not do, and what foreign names in a job's folder may not do to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.client.garbage_collection import collect_garbage
from tests.client.left_job import LeftJob


@pytest.mark.xfail(reason="the clock of a local disk is asked by making a file in the folder", strict=True)
def test_a_look_writes_nothing_not_even_for_a_moment(tmp_path: Path) -> None:
    """A root that may be read only can be looked at: docs/cli.md says that nothing is written."""
    job = LeftJob.run(tmp_path)
    for name in (f"{job.root}/orders/journal/.tmp-{'0' * 16}", f"{job.root}/.probe-{'1' * 16}"):
        Path(name).write_bytes(b"12")
    before = {path: path.stat().st_mtime_ns for path in [job.root, *job.root.rglob("*")] if path.is_dir()}
    report = collect_garbage(job.root)
    assert report.problems == {}
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_folder_with_a_strange_digit_is_nothing(tmp_path: Path) -> None:
    job = LeftJob.run(tmp_path)
    for folder in ("orders/vertices/history/²", "orders/deployments/²", "orders/checkpoints/chk-²"):
        (job.root / folder).mkdir(parents=True)
        (job.root / folder / "mine").write_text("mine")
    report = collect_garbage(job.root, delete=True)
    assert report.problems == {}
    assert (job.root / "orders/vertices/history/²/mine").exists()
