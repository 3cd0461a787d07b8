"""A job of history and live rows under ``ckpt run``: killed in the middle of a batch, run again, drained."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.sinks.manifests import released_files
from tests.support.processes import Process, command_name
from tests.support.waiting import wait_until

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


@dataclass(frozen=True)
class KilledJob:
    """Evidence of the two runs. Rows are sorted ids of released rows."""

    killed: list[str]
    """Names of the processes that were alive before the kill."""
    first_exit: int | None
    rows_after_kill: list[int]
    second_exit: int | None
    second_kinds: set[str]
    """Kinds of the second run's status lines."""
    rows: list[int]
    listed: list[int]
    """The same rows, from a listing of the sink's folder instead of its manifests."""


def run_killed_job(folder: Path) -> KilledJob:
    shop = _Shop(folder)
    shop.put(shop.history, "1.json", [1, 2], modified=1_700_000_000)
    shop.put(shop.history, "2.json", [3, 4], modified=1_700_000_001)
    shop.put(shop.live, "1.json", [101, 102], modified=1_700_000_000)
    with shop.start("first.log") as first:
        shop.wait_for(4, first)
        killed = sorted(str(command_name(pid)) for pid in first.session())
        first.end()
    rows_after_kill = shop.rows()

    shop.gate.unlink()
    shop.put(shop.live, "2.json", [103], modified=1_700_000_001)
    with shop.start("second.log") as second:
        shop.wait_for(7, second)
        assert main(["drain", "orders", "--root", str(shop.root)]) == 0
        second.wait()
    return KilledJob(
        killed,
        first.exit_code,
        rows_after_kill,
        second.exit_code,
        {json.loads(line)["kind"] for line in second.text().splitlines() if line.startswith("{")},
        shop.rows(),
        _ids(shop.target.glob("*.json")),
    )


class _Shop:
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

    def wait_for(self, count: int, run: Process) -> None:
        def are_released() -> bool:
            assert run.exit_code is None, run.tail()
            return len(self.rows()) >= count

        wait_until(are_released, lambda: f"{count} released rows, not {self.rows()}\n{run.tail()}")


def _ids(files: Iterable[Path]) -> list[int]:
    return sorted(json.loads(line)["id"] for file in files for line in file.read_text().splitlines())
