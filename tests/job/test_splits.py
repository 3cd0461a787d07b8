"""Splits that a user may give to a source, and their names."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.job.chaining import build_graph
from airflow_provider_ckpt.job.errors import BadOperatorOptionError, InvalidJobError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.split_source import SplitSource, named_splits, read_splits
from airflow_provider_ckpt.sinks.file.file_sink import FileSink


def named(*given: Any) -> list[str]:
    return [split.id for split in named_splits("parts", "job.py:1", list(given))]


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def declared(**given: Any) -> Job:
    job = Job("splits")

    @job.source(**{"bounded": True, "splits": ["a"], **given})
    def parts(read: Any, split: Any) -> Any:
        raise NotImplementedError

    return job


def test_a_split_is_named_by_its_content() -> None:
    assert named("2026-01", 7, ["a", 1], {"to": 9, "from": 0}) == ["2026-01", "7", '["a",1]', '{"from":0,"to":9}']


def test_a_split_is_named_by_the_user() -> None:
    assert named({"id": "east", "url": "https://east"}, {"id": "west", "url": "https://west"}) == ["east", "west"]


def test_a_long_split_has_a_short_unique_name() -> None:
    first, second = named("x" * 500, "x" * 501)
    assert len(first) == len(second) < 100
    assert first != second


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([], "none at all"),
        (["a", "a"], "numbers 0 and 1 are both 'a'"),
        (["7", 7], "both '7'"),
        ([{"id": "a", "n": 1}, {"id": "a", "n": 2}], "both 'a'"),
        ([{"id": 3}], "whose 'id' is 3"),
        ([""], "whose 'id' is ''"),
        ([("a",)], "a tuple"),
        ([{"a": {1: 2}}], "1 is a key of a dict"),
        ([[object()]], "a object"),
        ([float("nan")], "no number of JSON"),
        ([10**5000], "a number of more than 1000 digits"),
        ([{"id": "a", "n": [-(10**5000)]}], "a number of more than 1000 digits"),
        ([nested(101)], "more than 100 lists and dicts in each other"),
        ([nested(5000)], "more than 100 lists and dicts in each other"),
        (["caf\udce9"], r"'caf\\udce9' is no Unicode text"),
        ([{"id": "a", "\udce9": 1}], "is no Unicode text"),
        ("ab", "an object of type str"),
        (None, "an object of type NoneType"),
    ],
)
def test_splits_that_cannot_be_distinguished_or_recorded_are_refused(given: Any, problem: str) -> None:
    with pytest.raises(InvalidJobError, match=problem):
        named_splits("parts", "job.py:1", given)


def test_a_function_of_splits_is_called_when_they_are_read() -> None:
    calls: list[int] = []

    def given() -> list[int]:
        calls.append(1)
        return [1, 2]

    job = declared(splits=given)
    assert calls == []
    source = job.operators["parts"].splits
    assert source is not None
    assert [split.value for split in read_splits("parts", "job.py:1", source)] == [1, 2]


def test_a_later_change_of_a_list_of_splits_has_no_effect() -> None:
    given = ["a"]
    job = declared(splits=given)
    given.append("b")
    assert job.operators["parts"].splits == SplitSource(["a"], 1)


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"bounded": False}, "bounded"),
        ({"splits": "abc"}, "splits"),
        ({"parallelism": 0}, "parallelism"),
        ({"parallelism": True}, "parallelism"),
        ({"watermark": ("ts", "1 hour")}, "watermark"),
        ({"max_files_per_trigger": 3}, "max_files_per_trigger"),
        ({"max_bytes_per_trigger": "1m"}, "max_bytes_per_trigger"),
        ({"splits": None, "parallelism": 2}, "parallelism"),
        ({"splits": None, "batched": True}, "batched"),
        ({"batched": "yes"}, "batched"),
        ({"max_splits_per_batch": 65}, "max_splits_per_batch"),
        ({"batched": True, "max_splits_per_batch": 1025}, "max_splits_per_batch"),
    ],
)
def test_options_that_exclude_each_other_are_refused_by_name(given: dict[str, Any], option: str) -> None:
    with pytest.raises(BadOperatorOptionError, match=f"'parts'.*{option}="):
        declared(**given)


@pytest.mark.parametrize(
    ("given", "most"),
    [
        ({}, 1),
        ({"parallelism": 2}, 64),
        ({"batched": True}, 1024),
        ({"batched": True, "parallelism": 2}, 1024),
        ({"batched": True, "max_splits_per_batch": 100}, 100),
        ({"max_splits_per_batch": 7}, 7),
    ],
)
def test_options_limit_the_splits_that_are_read_together(given: dict[str, Any], most: int) -> None:
    source = declared(**given).operators["parts"].splits
    assert source is not None
    assert source.most_together == most


def test_an_empty_list_of_splits_is_refused() -> None:
    with pytest.raises(InvalidJobError, match=r"'parts'.*none at all"):
        declared(splits=[])


def test_the_function_of_a_source_with_splits_takes_two_parameters() -> None:
    with pytest.raises(InvalidJobError, match="takes two parameters"):

        @Job("splits").source(bounded=True, splits=["a"])
        def parts(read: Any) -> Any:
            raise NotImplementedError


def test_a_source_with_splits_is_its_own_parallel_vertex() -> None:
    job = declared(parallelism=3)

    @job.transform(inputs=["parts"])
    def doubled(rows: Any) -> Any:
        raise NotImplementedError

    job.sink("out", doubled, FileSink("/out"))
    graph = build_graph(job, inline=lambda uid: True)
    assert [(vertex.uid, vertex.parallelism, vertex.splits) for vertex in graph.vertices] == [
        ("parts", 3, True),
        ("doubled", 1, False),
    ]
