"""Job ``jobs/counted.py`` with workers, whose functions a user changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airflow_provider_ckpt import released_files
from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from airflow_provider_ckpt.sparkfiles.attempt_folders import AttemptFolders
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.subtasklog.log_reader import TailingLogReader
from airflow_provider_ckpt.subtasklog.records import Open
from tests.support.waiting import wait_until
from tests.workers.world import PATIENCE, Member, World

JOB = Path(__file__).parent / "jobs" / "counted.py"


class Counted(World):
    job, job_id = JOB, "counted"

    def __enter__(self) -> Counted:
        return self

    def driver(self) -> Member:
        return self.start("run", "--conf", "spark.master=local[2]")

    def rows(self, sink: str) -> list[dict[str, Any]]:
        files = released_files(str(self.base / sink))
        paths = [Path(file.removeprefix("file:")) for file in files]
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    def counts(self) -> dict[int, int]:
        by_key: dict[int, int] = {}
        for row in self.rows("cellar"):
            by_key[row["k"]] = max(by_key.get(row["k"], 0), row["n"])
        return by_key

    def wait_for_all(self) -> None:
        ids, counted = (
            self.live_ids,
            {k: len([number for number in self.live_ids if number % 3 == k]) for k in range(3)},
        )
        tails = lambda: "\n".join(member.tail() for member in self.members)  # noqa: E731
        wait_until(lambda: len(self.rows("lake")) >= len(ids) and self.counts() == counted, tails, seconds=PATIENCE)

    def feed_and_wait(self) -> None:
        self.feed()
        self.wait_for_all()

    def version(self, name: str, counts: str = "") -> str:
        """Write a version of the job that marks rows with ``name``.

        ``counts``: code to run first in the function counts.
        """
        text = JOB.read_text().replace('F.lit("one")', f'F.lit("{name}")')
        text = text.replace("    return rows.groupBy", f"    {counts or 'pass'}\n    return rows.groupBy")
        path = self.base / f"{name}.py"
        path.write_text(text)
        return f"{path}:job"

    def outcome(self, changes: Reconfiguration) -> str:
        answer = self.client.answer(self.client.reconfigure(changes), PATIENCE)
        return str(answer.outcome)

    def cut_into(self) -> int | None:
        log = TailingLogReader(self.storage, subtask_log_path(self.job_id, "counts", 0))
        attempts = [record.attempt for _, record in log.records() if isinstance(record, Open)]
        return (
            AttemptFolders(self.storage, f"{self.job_id}/vertices/counts/0/spark")
            .folder(attempts[-1])
            .state_partitions()
        )
