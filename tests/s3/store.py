"""S3 server on the loopback interface, in its own process, and a bucket in it."""

from __future__ import annotations

import io
import re
import sys
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.support.processes import Process
from tests.support.waiting import wait_until

KEY = "ACCESS-KEY-NOBODY-MAY-SEE"
SECRET = "a-secret-nobody-may-see"


class Server(Process):
    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.s3.moto_server", "-H", "127.0.0.1", "-p", "0"]
        super().__init__(command, folder / "moto.log")

    def __enter__(self) -> Server:
        return self

    @property
    def endpoint(self) -> str:
        def look() -> str | None:
            assert self.exit_code is None, self.tail()
            match = re.search(r"Running on (http://127\.0\.0\.1:\d+)", self.text())
            return match and match[1]

        endpoint = wait_until(look, lambda: f"the S3 server\n{self.tail()}")
        assert endpoint is not None
        return endpoint

    def options(self) -> dict[str, Any]:
        """Return the storage options that a user would pass."""
        return {
            "key": KEY,
            "secret": SECRET,
            "endpoint_url": self.endpoint,
            "client_kwargs": {"region_name": "us-east-1"},
        }

    def bucket(self, name: str | None = None) -> Bucket:
        bucket = Bucket(name or f"b-{uuid.uuid4().hex[:12]}", self.options())
        bucket.create()
        return bucket


class Bucket:
    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name, self.options = name, options

    def create(self) -> None:
        import s3fs

        s3fs.S3FileSystem(**self.options).call_s3("create_bucket", Bucket=self.name)

    @property
    def storage(self) -> Storage:
        return open_storage(Location(f"s3://{self.name}", self.options))

    def put(self, path: str, ids: Iterable[int]) -> None:
        """Upload a Parquet file of rows {"id", "k"}. Like every object it appears whole."""
        numbers = list(ids)
        body = io.BytesIO()
        parquet.write_table(pa.table({"id": numbers, "k": [number % 7 for number in numbers]}), body)
        self.storage.replace(path, body.getvalue())
