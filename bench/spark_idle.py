"""Queries of ``bench_idle.py`` in plain Spark, with Spark's own settings. They run until they are terminated.

    python bench/spark_idle.py '<vertices and work as JSON>'

It prints ``running`` when all queries wait for data.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import plans
from bench.one_run import CONF

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    Function = Callable[[DataFrame], DataFrame]


def start(spark: SparkSession, work: str, name: str, source: str, out: str, function: Function) -> StreamingQuery:
    def write(frame: DataFrame, number: int) -> None:
        frame.write.mode("append").parquet(out)

    rows = function(spark.readStream.schema(plans.SCHEMA).parquet(source))
    writer = rows.writeStream.queryName(name).option("checkpointLocation", f"{work}/spark/{name}")
    query: StreamingQuery = writer.foreachBatch(write).start()
    return query


def main(vertices: int, work: str) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("idle")
    for key, value in CONF.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for folder in ("live", "between", *(f"out/{number}" for number in range(1, vertices))):
        Path(work, folder).mkdir(parents=True, exist_ok=True)
    if vertices == 1:
        queries = [start(spark, work, "all", f"{work}/live", f"{work}/out/1", plans.cleaned)]
    else:
        queries = [start(spark, work, "live", f"{work}/live", f"{work}/between", lambda rows: rows)]
        for number in range(1, vertices):
            name, out = f"consumer_{number}", f"{work}/out/{number}"
            queries.append(start(spark, work, name, f"{work}/between", out, plans.cleaned))
    while not all("Waiting" in query.status["message"] for query in queries):
        time.sleep(0.1)
    print("running", flush=True)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
