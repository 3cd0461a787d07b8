"""Rights in an object store, which a driver checks before it starts Spark, and expired tokens."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("s3fs")
pytest.importorskip("moto.server")

from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.spark.main import run_job
from airflow_provider_ckpt.spark.preparation.loaded_run import RunRequest
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.status.status_line import StatusLine
from airflow_provider_ckpt.storage import s3_client
from airflow_provider_ckpt.storage.credentials import wait_for_credentials
from airflow_provider_ckpt.storage.location import Location
from tests.storage.test_s3 import options
from tests.support.refusing_proxy import RefusingProxy, refusing_proxy
from tests.support.s3_rights import Rights
from tests.support.s3_server import s3_server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

JOB = """
from airflow_provider_ckpt import FileSink, Job

job = Job("orders")

@job.source(bounded=True)
def history(read):
    return read.schema("id LONG").parquet("/data/history")

job.sink("out", history, FileSink("s3://{bucket}/lake/out"))
"""


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def start(builder: Any) -> None:
        raise RuntimeError("Spark was started")

    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr("airflow_provider_ckpt.spark.app.session._started", start)
    yield
    wait_for_credentials(0)


@pytest.fixture(scope="module")
def proxy() -> Iterator[RefusingProxy]:
    with s3_server() as endpoint:
        address = urlsplit(endpoint)
        assert address.hostname
        assert address.port
        with refusing_proxy(address.hostname, address.port) as proxy:
            yield proxy


class Driver:
    """Run of the job "orders" in a bucket of its own. ``lines``: its status lines."""

    def __init__(self, proxy: RefusingProxy, folder: Path) -> None:
        import s3fs

        self.proxy, self.rights, self.bucket = proxy, Rights(), f"b-{uuid.uuid4().hex}"
        proxy.rights = self.rights
        s3fs.S3FileSystem(**options(proxy.uri)).call_s3("create_bucket", Bucket=self.bucket)
        self.file = folder / "orders.py"
        self.file.write_text(JOB.format(bucket=self.bucket))
        self.lines: list[StatusLine] = []

    def run(self, **given: Any) -> tuple[ExitCode, str]:
        location = Location(f"s3://{self.bucket}/ckpt", options(self.proxy.uri))
        asked = RunOptions(f"{self.file}:job", location.uri, "orders", **given)
        code = run_job(RunRequest(asked, location, self.lines.append))
        return code, self.lines[-1].message

    def keys(self) -> list[str]:
        import s3fs

        return list(s3fs.S3FileSystem(**options(self.proxy.uri), use_listings_cache=False).find(self.bucket))


@pytest.fixture
def driver(proxy: RefusingProxy, tmp_path: Path) -> Iterator[Driver]:
    yield Driver(proxy, tmp_path)
    proxy.rights = None


def test_d23_a_driver_with_all_rights_starts_spark_and_leaves_nothing(driver: Driver) -> None:
    assert driver.run() == (ExitCode.FAILED, "RuntimeError: Spark was started")
    assert driver.keys() == []


@pytest.mark.parametrize("folder", ["ckpt", "lake/out", "lake/_ckpt-out"])
@pytest.mark.parametrize("right", ["PutObject", "GetObject", "ListBucket", "DeleteObject"])
def test_d23_a_missing_right_is_reported_before_spark_starts(driver: Driver, right: str, folder: str) -> None:
    driver.rights.deny(right, folder)
    code, message = driver.run()
    assert code is ExitCode.TERMINAL, message
    assert message.startswith("the storage refused to ")
    assert f" s3://{driver.bucket}/{folder}" in message
    assert f"; the job needs s3:{right}" in message or "s3:ListBucket on the bucket" in message


def test_d23_an_expired_token_is_reported_as_retryable(driver: Driver) -> None:
    driver.rights.expired = True
    code, message = driver.run(storage_timeout=0)
    assert code is ExitCode.FAILED
    assert "because the credentials have expired" in message
    assert "s3:" not in message.replace("s3://", "")
    assert driver.lines[-1].data["terminal"] is False


def test_d23_a_driver_continues_when_its_token_is_renewed(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(s3_client, "FIRST_PAUSE", 0.05)
    driver.rights.expired = True
    ended: list[tuple[ExitCode, str]] = []
    thread = threading.Thread(target=lambda: ended.append(driver.run()), daemon=True)
    thread.start()
    wait_until(lambda: driver.rights.refused >= 3, lambda: f"it waits {ended}")
    driver.rights.allow_all()
    thread.join(60)
    assert ended == [(ExitCode.FAILED, "RuntimeError: Spark was started")]
    assert f"the credentials for s3://{driver.bucket} have expired; waiting up to 300 s for new ones" in caplog.text
