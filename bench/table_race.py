"""Race of several ways to write the same rows to a table. The two benches of database sinks share this."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


def driver_jar(artifact: str) -> Path:
    """Return the JDBC driver's jar. ``artifact``: ``group:name:version`` of Maven Central, fetched once (needs mvn)."""
    _, name, version = artifact.split(":")
    folder = Path.home() / ".cache" / "airflow-provider-ckpt" / "jars"
    jar = folder / f"{name}-{version}.jar"
    if not jar.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
        subprocess.run(command, check=True, timeout=600, stdin=subprocess.DEVNULL)
    return jar


def session(artifact: str) -> SparkSession:
    """Return a session with the JDBC driver."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", str(driver_jar(artifact)))
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rows(spark: SparkSession, count: int) -> DataFrame:
    found = spark.range(count, numPartitions=4).selectExpr(
        "id",
        "cast(id % 1000 as int) AS shop",
        "concat('city ', id % 5000) AS city",
        "cast(id % 100000 / 100 as decimal(12,2)) AS amount",
        "id * 1.5D AS price",
        "timestamp_seconds(1700000000 + id) AS at",
    )
    found.cache().count()
    return found


def race(
    ways: Mapping[str, Callable[[], None]],
    timed: Callable[[Callable[[], None]], float],
    rounds: int,
    count: int,
    goals: Mapping[str, float],
) -> None:
    """Run the ways in turn, and print a table. The first way is ours, and the first round is a warm-up.

    ``timed`` returns the seconds of one way into an empty table, and counts its rows.
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            seconds = timed(way)
            if number:
                times[name].append(seconds)
    print(f"{'':22}{'s (median)':>12}{'rows/s':>12}{'released is':>14}{'goal':>8}")
    ours = next(iter(times.values()))
    for name, found in times.items():
        ratio = statistics.median(theirs / mine for theirs, mine in zip(found, ours, strict=True))
        goal = f"{goals[name]:.2f}" if name in goals else ""
        median = statistics.median(found)
        print(f"{name:22}{median:12.2f}{count / median:12,.0f}{ratio:13.2f}x{goal:>8}")
    print(f"load {os.getloadavg()[0]:.1f}")


def stopwatch(way: Callable[[], None]) -> float:
    begun = time.monotonic()
    way()
    return time.monotonic() - begun
