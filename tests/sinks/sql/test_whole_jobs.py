"""A job in its own process, with a table and a folder. Each row is in both once, and the password is in no file."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from airflow_provider_ckpt.report.exit_code import ExitCode
from airflow_provider_ckpt.sinks.manifests import read_manifests
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.world import World
from tests.support.mariadb import PASSWORD as SECRET
from tests.support.processes import Process
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
ODD = ["a,\"'", None]
JOB = """
from airflow_provider_ckpt import FileSink, Job, SqlSink
from pyspark.sql import functions as F

job = Job("orders")


@job.source(bounded={bounded})
def orders(read):
    schema = "id int, at timestamp, tags array<string>, raw binary, nested struct<n: int>"
    return read.schema(schema).parquet({source!r})


@job.transform(orders)
def known(rows):
    return rows.withColumn("city", F.concat(F.lit("city "), "id"))


job.sink("files", known, FileSink({folder!r}))
job.sink("table", known, SqlSink("orders", conn_id="shop_db", **{given!r}))
"""
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("raw", pa.binary()),
        ("nested", pa.struct([("n", pa.int32())])),
    ]
)


class Place:
    """Folders where such a job reads and writes."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder, self.runs = world, folder, 0
        self.events = folder / "events"
        for name in ("source", "events", "root", "out"):
            (folder / name).mkdir()

    @property
    def uri(self) -> str:
        """Return the connection URI as Airflow writes it."""
        if isinstance(self.world, MariaDBWorld):
            return self.world.url.replace("mysql+pymysql", "mysql")
        return (
            self.world.url.replace("sqlite:///", "sqlite://", 1)
            .replace("//", "@", 1)
            .replace("/", "%2F")
            .replace("@", "//")
        )

    def put(self, number: int) -> None:
        rows = [
            {
                "id": one,
                "at": 1_700_000_000_000_000 + one,
                "tags": ODD,
                "raw": b"\x00\\",
                "nested": {"n": one},
            }
            for one in range(10 * number, 10 * number + 10)
        ]
        path = self.folder / "source" / f"{number}.parquet"
        parquet.write_table(pa.Table.from_pylist(rows, SCHEMA), path.with_suffix(".tmp"))
        path.with_suffix(".tmp").rename(path)

    def write_job(self, *, bounded: bool = True, **given: object) -> Path:
        text = JOB.format(
            bounded=bounded,
            source=str(self.folder / "source"),
            folder=str(self.folder / "out"),
            given=given,
        )
        path = self.folder / "job.py"
        path.write_text(text)
        return path

    def start(self, **more: object) -> Process:
        self.runs += 1
        conf = {
            "spark.master": "local[2]",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self.events.as_uri(),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "Europe/Berlin",
        }
        options = {
            "job": f"{self.folder / 'job.py'}:job",
            "root": str(self.folder / "root"),
            "job_id": "orders",
            "checkpoint_interval": 1,
            "conf": conf,
            **more,
        }
        command = [sys.executable, "-m", "airflow_provider_ckpt.spark.main", "--options", json.dumps(options)]
        connection = {"AIRFLOW_CONN_SHOP_DB": self.uri}
        return Process(command, self.folder / f"run-{self.runs}.log", env=connection, cwd=self.folder)

    def ids(self) -> list[int]:
        return [row[0] for row in self.world.run(f"SELECT id FROM {self.world.schema}orders ORDER BY id")]

    def file_rows(self) -> int:
        return sum(manifest.rows for manifest in read_manifests(str(self.folder / "out")))


@pytest.fixture
def place(world: World, tmp_path: Path) -> Place:
    return Place(world, tmp_path)


def command_lines() -> str:
    """Return the command lines of all processes on this machine, as ``ps`` shows them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(found)


def holders(place: Place) -> list[str]:
    """Return the files of the place that contain the password."""
    files = [path for path in place.folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if SECRET.encode() in path.read_bytes()]


@pytest.mark.slow
def test_rows_of_a_job_with_a_table_and_a_folder_are_in_both_once_and_the_password_is_nowhere(place: Place) -> None:
    for number in range(3):
        place.put(number)
    place.write_job(create=True)
    seen: list[str] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.2):
            seen.append(command_lines())

    watching = threading.Thread(target=look)
    watching.start()
    try:
        with place.start() as run:
            assert run.wait(300) == ExitCode.FINISHED, run.tail()
    finally:
        over.set()
        watching.join()
    assert place.ids() == list(range(30))
    assert place.file_rows() == 30
    [row] = place.world.run(f"SELECT at, tags, raw, nested, city FROM {place.world.schema}orders WHERE id = 7")
    assert str(row[0]) == "2023-11-14 22:13:20.000007"
    assert (json.loads(row[1]), row[2], json.loads(row[3]), row[4]) == (ODD, b"\x00\\", {"n": 7}, "city 7")
    assert place.world.staged() == []
    assert any(place.events.rglob("*")), "there is an event log to look into"
    assert "airflow_provider_ckpt.spark.main" in "".join(seen)
    assert SECRET not in "".join(seen)
    assert holders(place) == []


@pytest.mark.chaos
def test_a_driver_that_is_killed_again_and_again_puts_each_row_into_the_table_once(place: Place) -> None:
    place.write_job(bounded=False, create=True)
    place.put(0)
    for number in range(1, 4):
        with place.start() as run:
            wanted = 10 * number

            def is_there() -> bool:
                assert run.exit_code is None, run.tail()
                return "orders" in place.world.tables() and len(place.ids()) >= wanted  # noqa: B023

            wait_until(is_there, run.tail)
            place.put(number)
            wait_until(lambda: place.world.staging_tables() > 0 or len(place.ids()) > wanted, run.tail)  # noqa: B023
        # each driver was killed with batches in progress
    with place.start(drain_after=20) as run:
        assert run.wait(300) == ExitCode.FINISHED, run.tail()
    assert place.ids() == list(range(40))
    assert place.file_rows() == 40
    assert place.world.staging_tables() == 0
