"""Foreign names in a job's folder, which must not disturb a garbage collection."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ckpt.client.garbage_collection import collect_garbage
from tests.client.crashed_job import CrashedJob


def test_a_folder_named_by_a_superscript_digit_is_ignored(tmp_path: Path) -> None:
    job = CrashedJob.run(tmp_path)
    for folder in ("orders/vertices/history/²", "orders/deployments/²", "orders/checkpoints/chk-²"):
        (job.root / folder).mkdir(parents=True)
        (job.root / folder / "mine").write_text("mine")
    report = collect_garbage(job.root, delete=True)
    assert report.problems == {}
    assert (job.root / "orders/vertices/history/²/mine").exists()
