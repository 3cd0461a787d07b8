"""The first example of README.md: its job, its two input files and its ``ckpt`` commands, as they stand there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.sinks.file.manifests import read_manifests
from tests.docs.examples import ROOT, run_page
from tests.spark.harness import read_rows
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.smoke, pytest.mark.spark]

END = "\n### History and live in one folder\n"
"""The heading after the example."""


def released(lake: Path) -> list[tuple[int, str, float, str]]:
    if not lake.exists():
        return []
    files = [lake / unquote(file.path) for manifest in read_manifests(str(lake)) for file in manifest.files]
    return sorted(
        (row["id"], row["shop"], row["amount"], file.parent.name) for file in files for row in read_rows(file)
    )


def test_the_first_example_of_the_readme_releases_its_rows(tmp_path: Path) -> None:
    """The page runs the job for 20 s. This test stops it when its rows are released."""
    example, heading, _ = (ROOT / "README.md").read_text("utf-8").partition(END)
    assert heading, f"README.md has no heading {END.strip()!r}"
    lake = tmp_path / "lake" / "large_orders"
    with ThreadPoolExecutor(1) as thread:
        page = thread.submit(run_page, example, tmp_path)
        wait_until(lambda: page.done() or len(released(lake)) >= 2, "two released rows")
        if not page.done():
            assert main(["stop", "orders", "--root", str(tmp_path / "ckpt")]) == 0
        assert page.result() == 3
    assert released(lake) == [(1, "A", 120.0, "day=2026-01-01"), (2, "B", 340.0, "day=2026-01-02")]
