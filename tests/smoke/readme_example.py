"""The first example of README.md: its job, its two input files and its ``ckpt`` commands, as they stand there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.sinks.manifests import read_manifests
from tests.docs.examples import ROOT, run_page
from tests.spark.harness import read_rows
from tests.support.waiting import wait_until

END = "\n## From Airflow\n"
"""The heading after the example."""


@dataclass(frozen=True)
class ReadmeExample:
    blocks: int
    """Number of blocks that were written or run."""
    rows: list[tuple[int, str, float, str]]
    """Released rows: id, shop, amount, folder of the file."""


def run_readme_example(folder: Path) -> ReadmeExample:
    """Run the example, and stop its job when both rows are released instead of after the 20 s of the page."""
    example, heading, _ = (ROOT / "README.md").read_text("utf-8").partition(END)
    assert heading, f"README.md has no heading {END.strip()!r}"
    lake = folder / "lake" / "large_orders"
    with ThreadPoolExecutor(1) as thread:
        page = thread.submit(run_page, example, folder)
        wait_until(lambda: page.done() or len(_rows(lake)) >= 2, "two released rows")
        if not page.done():
            assert main(["stop", "orders", "--root", str(folder / "ckpt")]) == 0
        return ReadmeExample(page.result(), _rows(lake))


def _rows(lake: Path) -> list[tuple[int, str, float, str]]:
    if not lake.exists():
        return []
    files = [lake / unquote(file.path) for manifest in read_manifests(str(lake)) for file in manifest.files]
    return sorted(
        (row["id"], row["shop"], row["amount"], file.parent.name) for file in files for row in read_rows(file)
    )
