"""Distance of a bounded Kafka source from its frozen end (R2, R11)."""

from __future__ import annotations

import json

from airflow_provider_ckpt.sparkfiles.seen_files import log_offset
from airflow_provider_ckpt.task.bounded_offsets import BoundedOffsets


def test_r2_a_source_ends_when_all_partitions_reach_their_frozen_ends() -> None:
    source = BoundedOffsets("history", {("a", 0): 10, ("a", 1): 5, ("b", 0): 1})
    for offset, ended in (
        (None, False),
        ({"a": {"0": 10, "1": 4}}, False),
        ({"a": {"0": 10, "1": 4}, "b": {"0": 1}}, False),
        ({"a": {"0": 900, "1": 5}, "b": {"0": 7}}, True),
    ):
        source.read(None if offset is None else json.dumps(offset))
        assert source.at_end() is ended


def test_a_partition_at_its_end_stays_there() -> None:
    source = BoundedOffsets("history", {("a", 0): 10, ("a", 1): 5})
    source.read('{"a": {"0": 10, "1": 0}}')
    source.read('{"a": {"1": 5}}')
    assert source.at_end()


def test_an_empty_source_is_at_its_end_before_any_batch() -> None:
    assert BoundedOffsets("history", {}).at_end()


def test_a_topic_may_be_named_like_a_file_source_offset() -> None:
    assert log_offset('{"logOffset": {"0": 3}}') == -1
