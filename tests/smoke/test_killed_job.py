"""``ckpt run`` as a process of its own, killed in the middle of a batch and run again."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.sinks.file.manifests import released_files
from tests.support.processes import Process
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.smoke, pytest.mark.spark]

JOB = """
import os
from pyspark.sql import functions as F
from airflow_provider_ckpt import FileSink, Job

job = Job("orders")
GATE = {gate!r}

@F.udf("long")
def doubled(number):
    if number == 4 and os.path.exists(GATE):
        open(GATE).read()
    return number * 2

@job.source(bounded=True, max_files_per_trigger=1)
def history(read):
    return read.schema("id LONG").json({history!r})

@job.source
def live(read):
    return read.schema("id LONG").json({live!r})

@job.transform(inputs=[history, live])
def orders(rows):
    return rows.select(doubled("id").alias("id"))

job.sink("lake", orders, FileSink({target!r}, format="json"))
"""


class Shop:
    """A folder with the job, its input and its output.

    ``gate`` is a named pipe without a writer: while it exists, the batch with history row 4 waits for it. So the first
    run releases the batch before that one, and is killed in the middle of this one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.target = folder, folder / "root", folder / "out"
        self.history, self.live, self.gate = folder / "history", folder / "live", folder / "gate"
        os.mkfifo(self.gate)
        names = {name: str(folder / name) for name in ("gate", "history", "live")}
        (folder / "orders.py").write_text(JOB.format(**names, target=str(self.target)))

    def put(self, folder: Path, name: str, ids: list[int], modified: int) -> None:
        """Add a file, which appears whole under its name. Spark reads files in the order of ``modified``."""
        folder.mkdir(exist_ok=True)
        hidden = folder / f".{name}"
        hidden.write_text("".join(f'{{"id": {number}}}\n' for number in ids))
        os.utime(hidden, (modified, modified))
        hidden.rename(folder / name)

    def start(self, log: str) -> Process:
        code = "import sys; from airflow_provider_ckpt.cli import main; sys.exit(main())"
        job = ["run", f"{self.folder / 'orders.py'}:job", "--root", str(self.root), "--json"]
        conf = ["--conf", "spark.master=local[1]", "--conf", "spark.ui.enabled=false"]
        command = [sys.executable, "-c", code, *job, "--checkpoint-interval", "500ms", *conf]
        return Process(command, self.folder / log)

    def rows(self) -> list[int]:
        return _ids(self.target / Path(uri).name for uri in released_files(str(self.target)))

    def wait_for(self, rows: list[int], run: Process) -> None:
        def are_released() -> bool:
            assert run.exit_code is None, run.tail()
            return self.rows() == rows

        wait_until(are_released, lambda: f"released rows {rows}, not {self.rows()}\n{run.tail()}")


def _ids(files: Iterable[Path]) -> list[int]:
    return sorted(json.loads(line)["id"] for file in files for line in file.read_text().splitlines())


def kinds(run: Process) -> set[str]:
    """Return the kinds of the run's status lines."""
    return {json.loads(line)["kind"] for line in run.text().splitlines() if line.startswith("{")}


def test_a_job_killed_in_a_batch_releases_every_row_once(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.put(shop.history, "1.json", [1, 2], modified=1_700_000_000)
    shop.put(shop.history, "2.json", [3, 4], modified=1_700_000_001)
    shop.put(shop.live, "1.json", [101, 102], modified=1_700_000_000)
    with shop.start("first.log") as first:
        shop.wait_for([2, 4, 202, 204], first)
        assert first.jvms()
        first.end()
        assert first.exit_code == -signal.SIGKILL
    assert shop.rows() == [2, 4, 202, 204]

    shop.gate.unlink()
    shop.put(shop.live, "2.json", [103], modified=1_700_000_001)
    everything = [2, 4, 6, 8, 202, 204, 206]
    with shop.start("second.log") as second:
        shop.wait_for(everything, second)
        assert main(["drain", "orders", "--root", str(shop.root)]) == 0
        assert second.wait() == 0, second.tail()
        assert kinds(second) >= {"resumed", "finished"}, second.tail()
    assert shop.rows() == _ids(shop.target.glob("*.json")) == everything
