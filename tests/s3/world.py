"""Job whose input, root and outputs are all in one bucket, and its drivers."""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from pyarrow import parquet

from airflow_provider_ckpt.job.options.run_options import storage_options_environ
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_request import DrainRequest
from airflow_provider_ckpt.sinks.file.manifests import Manifest, read_manifests
from tests.chaos.data import FIRST_LIVE
from tests.chaos.world import JOBS, SMALL, Driver, Variant
from tests.s3.store import Bucket

ROWS = 20
JOB_ID = "job"
CONF = {**SMALL, "spark.driver.memory": "900m"}
Row = dict[str, Any]


class World:
    """World of that job. ``folder``: for the drivers' logs. Leaving the context kills every driver started in it."""

    def __init__(self, folder: Path, bucket: Bucket, variant: Variant, jars: Path | None) -> None:
        self.folder, self.bucket, self.variant = folder, bucket, variant
        self.root = f"s3://{bucket.name}/ckpt"
        self.conf = CONF if jars is None else {**CONF, "spark.driver.extraClassPath": f"{jars}/*"}
        self.drivers: list[Driver] = []
        self.ids: list[int] = []
        self.live_files = 0

    def __enter__(self) -> World:
        return self

    def __exit__(self, *exc: object) -> None:
        for driver in self.drivers:
            driver.end()

    # ---- data

    def add_history(self, files: int) -> None:
        for number in range(files):
            self._put(f"history/h{number:04d}", number * ROWS)

    def add_live(self) -> None:
        self._put(f"live/l{self.live_files:06d}", FIRST_LIVE + self.live_files * ROWS)
        self.live_files += 1

    def _put(self, name: str, first: int) -> None:
        numbers = range(first, first + ROWS)
        self.bucket.put(f"data/{name}.parquet", numbers)
        self.ids += numbers

    # ---- runs

    def start(self, **conf: str) -> Driver:
        options = {
            "job": f"{JOBS / self.variant.job}:job",
            "root": self.root,
            "job_id": JOB_ID,
            "conf": {**self.conf, **conf},
            "checkpoint_interval": 0.5,
        }
        command = [sys.executable, "-m", "airflow_provider_ckpt.spark.main", "--options", json.dumps(options)]
        env = {
            **storage_options_environ(self.bucket.options),
            "CKPT_CHAOS_BASE": f"s3a://{self.bucket.name}/data",
            "CKPT_CHAOS_CHAIN": "1" if self.variant.chain else "0",
        }
        driver = Driver(command, self.folder / f"driver-{len(self.drivers)}.log", env=env)
        self.drivers.append(driver)
        return driver

    def state(self) -> JobState:
        return Journal(self.bucket.storage.child("ckpt"), JOB_ID).replay()

    def drain(self) -> None:
        write_request(self.bucket.storage.child("ckpt"), JOB_ID, DrainRequest(epoch=self.state().epoch))

    # ---- evidence

    def manifests(self, sink: str) -> list[Manifest]:
        return read_manifests(f"s3://{self.bucket.name}/data/{sink}", storage_options=self.bucket.options)

    def released(self, sink: str) -> list[Row]:
        """Return the released rows in the order of checkpoints, batches and files."""
        return [
            row for manifest in self.manifests(sink) for file in manifest.files for row in self._rows(sink, file.path)
        ]

    def _rows(self, sink: str, path: str) -> list[Row]:
        data = self.bucket.storage.read(f"data/{sink}/{path}")
        if path.endswith(".parquet"):
            return list(parquet.read_table(io.BytesIO(data)).to_pylist())
        return [json.loads(line) for line in data.decode().splitlines()]

    def missing(self) -> int:
        """Return the number of input rows that at least one sink lacks."""
        return max(len(self.ids) - self._covered(sink) for sink in self.variant.sinks)

    def _covered(self, sink: str) -> int:
        if self.variant.counts:
            return sum(row["n"] for row in self.last_per_key(sink).values())
        return len({row["id"] for row in self.released(sink)})

    def last_per_key(self, sink: str) -> dict[int, Row]:
        return {row["k"]: row for row in self.released(sink)}

    def check_exactly_once(self) -> None:
        for sink in self.variant.sinks:
            if self.variant.counts:
                got = {k: (row["n"], row["total"]) for k, row in self.last_per_key(sink).items()}
                assert got == _counts(self.ids)
            else:
                assert Counter(row["id"] for row in self.released(sink)) == Counter(self.ids)
            self._check_visible(sink)

    def _check_visible(self, sink: str) -> None:
        """Assert that a reader without manifests sees exactly the released files."""
        files = [path for path, _ in self.bucket.storage.child(f"data/{sink}").files("")]
        visible = {path for path in files if not any(part.startswith("_") for part in path.split("/"))}
        assert visible == {file.path for manifest in self.manifests(sink) for file in manifest.files}

    def check_nothing_tells(self, *secrets: str) -> None:
        """Assert that no secret is in an object of the bucket or in a driver's output."""
        storage = self.bucket.storage
        for path, _ in storage.files(""):
            data = storage.read(path)
            assert not [secret for secret in secrets if secret.encode() in data], f"a secret is in {path}"
        for driver in self.drivers:
            assert not [secret for secret in secrets if secret in driver.text()], f"a secret is in {driver.log}"


def _counts(ids: list[int]) -> dict[int, tuple[int, int]]:
    keys = {number % 7 for number in ids}
    of = {key: [number for number in ids if number % 7 == key] for key in keys}
    return {key: (len(numbers), sum(numbers)) for key, numbers in of.items()}
