"""Flights from New York in 2013: months of history in files, today's flights arriving as files, cleaned into a
table.

Both inputs go into the same two outputs, and every checkpoint releases one consistent cut of them:

* ``flights``: every flight once, partitioned by month;
* ``daily_delays``: delays by day and carrier. A day that gets more flights is written again: the row with the
  most flights is its newest.

Each Dag run is a job of its own and reads all input again. With ``mode="overwrite"`` its rows replace those of the
previous run.
"""

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job

LAKE = os.environ.get("FLIGHTS_LAKE", "/lake/flights")
RAW = """
    year INT, month INT, day INT, minute INT, time_hour TIMESTAMP, carrier STRING, flight INT, tailnum STRING,
    origin STRING, dest STRING, distance INT, dep_time INT, dep_delay INT, arr_delay INT
"""

job = Job("flights")


@job.source(bounded=True, max_files_per_trigger=1)
def history(read) -> DataFrame:
    return read.schema(RAW).parquet(f"{LAKE}/raw/history")


@job.source(max_files_per_trigger=4)
def live(read) -> DataFrame:
    return read.schema(RAW).parquet(f"{LAKE}/raw/live")


@job.transform(inputs=[history, live])
def flights(raw: DataFrame) -> DataFrame:
    return raw.select(
        (F.col("time_hour") + F.make_dt_interval(mins=F.col("minute"))).alias("scheduled"),
        F.make_date("year", "month", "day").alias("day"),
        "month",
        "carrier",
        "flight",
        F.col("tailnum").alias("tail_number"),
        "origin",
        F.col("dest").alias("destination"),
        "distance",
        F.col("dep_time").isNull().alias("cancelled"),
        F.col("dep_delay").alias("departure_delay"),
        F.col("arr_delay").alias("arrival_delay"),
    )


@job.transform(inputs=[flights], output_mode="update")
def daily_delays(rows: DataFrame) -> DataFrame:
    return rows.groupBy("day", "carrier").agg(
        F.count("*").alias("flights"),
        F.count_if("cancelled").alias("cancelled"),
        F.sum("departure_delay").alias("departure_delay"),
        F.sum("arrival_delay").alias("arrival_delay"),
    )


job.sink("flights_table", flights, FileSink(f"{LAKE}/flights", partition_by=["month"], mode="overwrite"))
job.sink("delays_table", daily_delays, FileSink(f"{LAKE}/daily_delays", mode="overwrite"))
