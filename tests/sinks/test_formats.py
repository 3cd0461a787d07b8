"""Jobs that add to one folder in different formats: a folder is read in one."""

from __future__ import annotations

import uuid

import pytest

from airflow_provider_ckpt.sinks.bound_file_sink import BoundFileSink
from airflow_provider_ckpt.sinks.errors import OutputNotEmptyError, OutputTakenMeanwhileError
from airflow_provider_ckpt.sinks.file_names import TURNS
from airflow_provider_ckpt.sinks.file_writer import Format
from airflow_provider_ckpt.sinks.occupancy import Mode
from airflow_provider_ckpt.sinks.sink_name import SinkName
from airflow_provider_ckpt.sinks.turn_log import Turn, TurnLog
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import CrashingStorage, SimulatedCrash
from tests.sinks.lake import Lake
from tests.spark.faults import HookedStorage


@pytest.fixture
def lake() -> Lake:
    return Lake(f"memory://{uuid.uuid4().hex}")


def adding(lake: Lake, job: str, file_format: Format, storage: Storage | None = None) -> BoundFileSink:
    return lake.new(job, "append", storage=storage, file_format=file_format)


def turns(lake: Lake) -> list[str]:
    return [path for path, _ in lake.storage.files(TURNS)]


@pytest.mark.parametrize("theirs", ["append", "errorifexists", "overwrite"])
def test_of_two_that_found_the_folder_empty_the_second_is_refused_and_keeps_its_rows(lake: Lake, theirs: Mode) -> None:
    monday, tuesday = lake.new("monday", theirs), adding(lake, "tuesday", "csv")
    monday.release([lake.staged("monday", 1, "m")], 1)
    handle = lake.staged("tuesday", 1, "t")
    with pytest.raises(OutputTakenMeanwhileError, match=r"'monday' \(sink lake\) releases parquet there.* stay staged"):
        tuesday.release([handle], 1)
    assert lake.named() == lake.listed() == ["m"]
    lake.bind("tuesday", "overwrite", file_format="csv").release([handle], 1)
    assert lake.named() == lake.listed() == ["t"]


def test_of_two_first_releases_at_the_same_moment_one_is_refused(lake: Lake) -> None:
    """Each has looked and found nobody."""
    monday = adding(lake, "monday", "parquet")

    def hook(verb: str, path: str) -> None:
        if verb == "create" and "~turns" in path and not turns(lake):
            monday.release([lake.staged("monday", 1, "m")], 1)

    tuesday = adding(lake, "tuesday", "csv", HookedStorage(lake.storage, hook))
    with pytest.raises(OutputTakenMeanwhileError):
        tuesday.release([lake.staged("tuesday", 1, "t")], 1)
    assert lake.named() == lake.listed() == ["m"]


def test_one_that_has_its_turn_and_died_is_seen_by_who_comes(lake: Lake) -> None:
    adding(lake, "monday", "parquet")
    monday = lake.bind("monday", "append", storage=CrashingStorage(lake.storage, at=1, when="after"))
    handle = lake.staged("monday", 1, "m")
    with pytest.raises(SimulatedCrash):
        monday.release([handle], 1)
    assert turns(lake)
    assert lake.listed() == []
    with pytest.raises(OutputNotEmptyError, match="releases parquet there"):
        adding(lake, "tuesday", "csv")
    lake.bind("monday", "append").release([handle], 1)
    assert lake.named() == lake.listed() == ["m"]


def test_who_adds_in_the_format_that_is_there_takes_no_turn(lake: Lake) -> None:
    """A job for each day would make the line long, which each reads from its beginning."""
    for day in ("monday", "tuesday", "wednesday"):
        lake.release(day, day, mode="append")
    assert len(turns(lake)) == 1
    assert lake.named() == lake.listed() == ["monday", "tuesday", "wednesday"]


def test_who_was_replaced_does_not_count(lake: Lake) -> None:
    lake.release("monday", "m", mode="append")
    tuesday = lake.new("tuesday", "overwrite", file_format="csv")
    tuesday.release([lake.staged("tuesday", 1, "t")], 1)
    adding(lake, "wednesday", "csv").release([lake.staged("wednesday", 1, "w")], 1)
    assert lake.named() == lake.listed() == ["t", "w"]
    with pytest.raises(OutputNotEmptyError, match=r"'tuesday'.* releases csv there"):
        adding(lake, "thursday", "parquet")


def test_one_that_releases_nothing_takes_no_turn(lake: Lake) -> None:
    adding(lake, "monday", "parquet").release([], 1)
    assert turns(lake) == []


def test_a_turn_of_an_earlier_version_tells_of_no_format(lake: Lake) -> None:
    TurnLog(lake.storage).append(Turn("first", SinkName("monday", "lake"), "errorifexists"))
    adding(lake, "tuesday", "csv").release([lake.staged("tuesday", 1, "t")], 1)
    assert lake.named() == lake.listed() == ["t"]
