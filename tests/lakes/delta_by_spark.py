"""Spark with Delta's own jar on a table that a sink releases to: ``python -m tests.lakes.delta_by_spark <table>``.

It reads, merges, compacts, vacuums, alters and restores the table between the releases. Unexpected results raise.
"""

from __future__ import annotations

import sys

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from airflow_provider_ckpt.sinks.delta.delta_sink import DeltaSink
from airflow_provider_ckpt.sinks.errors import ReleaseRefusedError, TargetRefusedError
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.testing.staging import stage
from tests.s3.jars import delta_spark

CONTEXT = SinkContext("orders", "lake")
ROWS = "select cast(id as int) as id, concat('c/', id % 3) as city, timestamp_micros(id * 1000000) as at from range({})"


def session() -> SparkSession:
    builder = SparkSession.Builder().master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.jars", ",".join(map(str, delta_spark())))
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    return builder.config("spark.databricks.delta.retentionDurationCheck.enabled", "false").getOrCreate()


def main(table: str) -> None:
    spark = session()
    name = f"delta.`{table}`"
    sink = DeltaSink(table, partition_by=["city"])

    def count() -> int:
        return spark.read.format("delta").load(table).count()

    mine = sink.bind(CONTEXT)
    mine.release([stage(mine, spark.sql(ROWS.format("0, 30")), 1)], 1)
    assert count() == 30
    assert spark.sql(f"select count(*) from {name} where city = 'c/1' and id < 10").first()[0] == 3  # type: ignore[index]
    assert spark.sql(f"select max(at) from {name}").first()[0] is not None  # type: ignore[index]
    identity = DeltaTable(table).metadata().id

    waiting = stage(mine, spark.sql(ROWS.format("30, 60")), 2)
    spark.sql(f"insert into {name} values (1000, 'c/0', null)")
    spark.sql(f"optimize {name}")
    spark.sql(f"vacuum {name} retain 0 hours")
    assert sink.bind(CONTEXT).release([waiting], 2)["rows"] == 30
    assert count() == 61
    assert mine.last_released() == 2

    spark.sql(f"merge into {name} t using (select 1000 as id) s on t.id = s.id when matched then delete")
    spark.sql(f"alter table {name} add columns (more long)")
    assert DeltaTable(table).metadata().id == identity
    with pytest.raises(TargetRefusedError, match="'more'"):
        stage(mine, spark.sql(ROWS.format("60, 90")), 3)
    before = DeltaTable(table).version()
    wider = spark.sql(ROWS.format("60, 90")).selectExpr("*", "1L as more")
    mine.release([stage(mine, wider, 3)], 3)
    assert count() == 90

    spark.sql(f"restore table {name} to version as of {before}")
    assert count() == 60
    assert sink.bind(CONTEXT).release([], 4)["rows"] == 0
    assert mine.last_released() == 3, "a restore takes no release back"

    waiting = stage(mine, spark.sql(ROWS.format("90, 120")).selectExpr("*", "1L as more"), 4)
    spark.sql(f"alter table {name} add constraint few check (id < 100000)")
    with pytest.raises(ReleaseRefusedError, match="Checkpoint 4"):
        mine.release([waiting], 4)
    spark.sql(f"alter table {name} drop constraint few")
    mine.release([waiting], 4)
    assert count() == 90
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
