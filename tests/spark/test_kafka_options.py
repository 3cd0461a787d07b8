"""Options and frozen ends of bounded Kafka sources. Whole jobs: tests/kafka."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.query.errors import FrozenListLostError, UnfitSourceError
from airflow_provider_ckpt.spark.query.kafka.admin import KafkaAdmin
from airflow_provider_ckpt.spark.query.kafka.freezing import only_frozen
from airflow_provider_ckpt.spark.query.kafka.kafka_options import EARLIEST, LATEST, read_range, refuse_bounded
from airflow_provider_ckpt.spark.query.kafka.offsets import FrozenOffsets, FrozenPartition
from airflow_provider_ckpt.spark.query.sources.frozen_end import freeze_offsets, read_end, read_offsets
from airflow_provider_ckpt.spark.query.sources.frozen_files import FrozenFiles, freeze
from airflow_provider_ckpt.spark.task.errors import KafkaRowsGoneError
from airflow_provider_ckpt.spark.task.terminal_errors import terminal_error
from airflow_provider_ckpt.storage.opening import open_storage

GOLDEN = Path(__file__).parents[1] / "golden"
FROZEN = FrozenOffsets(
    "history",
    (FrozenPartition("orders", 0, 3, 12), FrozenPartition("orders", 1, 7, 7), FrozenPartition("returns", 0, 0, 1)),
)


def test_a_bounded_source_reads_its_topics_from_start_to_end_by_default() -> None:
    offsets = read_range("history", "job.py:1", {"Subscribe": "orders, returns"})
    assert (offsets.topics, offsets.start, offsets.end) == (("orders", "returns"), EARLIEST, LATEST)


def test_only_assigned_partitions_are_read() -> None:
    offsets = read_range("history", "job.py:1", {"assign": '{"orders": [1, 0]}', "startingOffsets": "EARLIEST"})
    assert offsets.topics == ("orders",)
    assert offsets.partitions == frozenset({("orders", 0), ("orders", 1)})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("startingOffsets", "latest"),
        ("STARTINGOFFSETS", " Latest "),
        ("startingOffsets", '{"orders": {"0": -1}}'),
        ("startingOffsets", "[1]"),
        ("endingOffsets", "earliest"),
        ("endingOffsets", '{"orders": {"0": -2}}'),
        ("startingTimestamp", "17"),
        ("endingTimestamp", "17"),
        ("startingOffsetsByTimestamp", "{}"),
        ("endingOffsetsByTimestamp", "{}"),
    ],
)
def test_a_bounded_source_with_a_moving_start_or_end_is_refused(key: str, value: str) -> None:
    with pytest.raises(UnfitSourceError, match=rf"(?i)source 'history' \(job.py:1\) has the option {key}="):
        refuse_bounded("history", "job.py:1", {"subscribe": "orders", key: value})


def test_reader_options_hold_the_frozen_partitions_only() -> None:
    given = FROZEN.reader_options(streaming=False)
    assert {key: json.loads(value) for key, value in given.items()} == {
        "assign": {"orders": [0, 1], "returns": [0]},
        "startingOffsets": {"orders": {"0": 3, "1": 7}, "returns": {"0": 0}},
        "endingOffsets": {"orders": {"0": 12, "1": 7}, "returns": {"0": 1}},
    }
    assert "endingOffsets" not in FROZEN.reader_options(streaming=True)


def test_empty_partitions_count_as_read() -> None:
    assert (FROZEN.count, FROZEN.remaining()) == (10, {("orders", 0): 12, ("returns", 0): 1})


def test_a_frozen_end_matches_its_golden_copy() -> None:
    data = (GOLDEN / "frozen-offsets-v1.json").read_bytes()
    assert FrozenOffsets.decoded(data, "uri") == FROZEN
    assert FROZEN.encoded() == data


def test_r11_the_first_frozen_end_decides(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    assert freeze_offsets(storage, "frozen.json", FROZEN) == FROZEN
    later = FrozenOffsets("history", (FrozenPartition("orders", 0, 3, 99),))
    assert freeze_offsets(storage, "frozen.json", later) == FROZEN


def test_both_kinds_of_frozen_ends_are_read_and_a_lost_one_is_refused(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    freeze_offsets(storage, "offsets.json", FROZEN)
    freeze(storage, "files.json", "history", ["file:///a"])
    assert read_end(storage, "offsets.json") == FROZEN
    assert read_end(storage, "files.json") == FrozenFiles("history", ("file:///a",))
    for path in ("gone.json", "cut.json"):
        if path == "cut.json":
            storage.replace(path, FROZEN.encoded()[:40])
        with pytest.raises(FrozenListLostError, match=path):
            read_end(storage, path)
        with pytest.raises(FrozenListLostError, match=path):
            read_offsets(storage, path)


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (
            "Reason: Could not read records in offset [0, 50) for topic partition orders-1\nwith consumer group g.\n",
            "Could not read records in offset [0, 50) for topic partition orders-1.",
        ),
        (
            "Reason: Partition orders-0 offset was changed from 100 to 30.\nThis could be either 1) a user error. "
            "SQLSTATE: 22000",
            "Partition orders-0 offset was changed from 100 to 30. This could be either 1) a user error.",
        ),
        (
            "Reason: Partitions Set(a-1) have been deleted.\n=== Streaming Query ===\nIdentifier: job [id = 1]",
            "Partitions Set(a-1) have been deleted.",
        ),
        ("Reason: Partitions Set(a-1) have been deleted. SQLSTATE: 22000", "Partitions Set(a-1) have been deleted."),
    ],
)
def test_lost_kafka_rows_are_not_retryable(cause: str, reason: str) -> None:
    lost = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Some data may have been lost because they are not "
        "available in Kafka any more;\neither the data was aged out by Kafka or the topic may have been deleted before "
        "all the data in the\ntopic was processed.\nIf you don't want your streaming query to fail on such cases, set "
        "the source option failOnDataLoss to false.\n"
    )
    error = terminal_error("rows", RuntimeError(lost + cause))
    assert isinstance(error, KafkaRowsGoneError)
    assert error.data["reason"] == reason
    assert not error.retryable


def test_r11_rows_after_the_frozen_end_or_of_other_partitions_are_left_out(spark: SparkSession) -> None:
    """Rows of a topic with another name are left out too.

    Spark reads on until every partition has reached its end.
    """
    rows = [(topic, part, at) for topic in ("orders", "returns", "x") for part in range(4) for at in (0, 6, 7, 11, 12)]
    frame = spark.createDataFrame(rows, "topic string, partition int, offset long")
    kept = sorted((row.topic, row.partition, row.offset) for row in only_frozen(frame, FROZEN).collect())
    assert kept == [
        *(("orders", 0, at) for at in (0, 6, 7, 11)),
        *(("orders", 1, at) for at in (0, 6)),
        ("returns", 0, 0),
    ]


@pytest.mark.parametrize("timeout", ["30s", "-1", "0", ""])
def test_an_invalid_timeout_is_named_by_its_option(spark: SparkSession, timeout: str) -> None:
    options = {"kafka.Default.api.timeout.ms": timeout}
    with pytest.raises(UnfitSourceError, match=r"kafka\.default\.api\.timeout\.ms=.*no number of milliseconds"):
        KafkaAdmin(spark, "history", "job.py:1", options)


def test_an_invalid_pattern_is_refused_with_javas_message(spark: SparkSession) -> None:
    with pytest.raises(
        UnfitSourceError, match=r"subscribePattern=\[a: it is no regular expression of Java's: Unclosed"
    ):
        KafkaAdmin(spark, "history", "job.py:1", {}).names("[a")
