"""Columns in the names of folders, with a reader that does not read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.query.errors import UnfitSourceError
from tests.spark.harness import World

pytestmark = pytest.mark.slow


def put(world: World, folder: str, text: str) -> None:
    place = Path(world.path("in")) / folder
    place.mkdir(parents=True, exist_ok=True)
    (place / "a [1].json").write_text(text)


def job_of(world: World, schema: str, *, recursive: bool = True, folder: str = "in") -> Job:
    job = Job("orders")

    @job.source(bounded=True)
    def history(read: Any) -> DataFrame:
        reader = read.schema(schema).option("recursiveFileLookup", recursive)
        return reader.json(world.path(folder))  # type: ignore[no-any-return]

    job.sink("out", history, FileSink(world.path("out")))
    return job


def test_a_column_only_in_folder_names_is_refused_by_name(world: World) -> None:
    """The bug released rows whose day was null."""
    put(world, "day=1/Zone=a%20b", '{"id":1}\n')
    with pytest.raises(UnfitSourceError, match="would be null in each row") as refused:
        world.run(job_of(world, "id LONG, zone STRING"), mode="batch")
    assert "has the column zone in its schema, and reads with recursiveFileLookup=true" in str(refused.value)
    assert "(Zone=a%20b), so zone would be null" in str(refused.value)
    assert "Leave the option out" in str(refused.value)
    assert world.everything_under_root() == []


def test_a_column_in_the_files_is_read(world: World) -> None:
    put(world, "day=1", '{"id":1,"day":"2"}\n')
    run = world.run(job_of(world, "id LONG, day STRING"), mode="batch")
    assert (run.status, run.cause) == ("FINISHED", None)
    assert [(row["id"], row["day"]) for row in world.released()] == [(1, "2")]


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        ("id LONG", {}),
        ("id LONG, day STRING", {"recursive": False}),
        ("id LONG, day STRING", {"folder": "in/day=1"}),
    ],
)
def test_recursive_reads_without_folder_columns_are_unchanged(
    world: World, schema: str, options: dict[str, Any]
) -> None:
    put(world, "day=1", '{"id":1}\n')
    (Path(world.path("in")) / "day=1/a [1].json").rename(Path(world.path("in")) / "day=1/a.json")
    run = world.run(job_of(world, schema, **options), mode="batch")
    assert (run.status, world.released_ids()) == ("FINISHED", [1])
