"""Settings of a FileSink that a job must keep when it resumes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.sinks.file.bound_file_sink import BoundFileSink
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.sink import SinkContext

SINK: dict[str, Any] = {
    "path": "/lake/revenue",
    "format": "csv",
    "partition_by": ["day"],
    "options": {"header": True, "sep": ";", "compression": "gzip", "maxRecordsPerFile": 1000},
}


def refused(before: FileSink, after: FileSink) -> set[str]:
    """Return the keys for which a start refuses the change."""
    old, new = dict(before.definition()), dict(after.definition())
    return {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)} - after.changeable


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        ({}, set()),
        ({"path": "/lake/other"}, {"path"}),
        ({"path": "s3://lake/revenue"}, {"path"}),
        ({"format": "json", "options": {}}, {"format", "option.header", "option.sep"}),
        ({"partition_by": []}, {"partition_by"}),
        ({"partition_by": ["day", "shop"]}, {"partition_by"}),
        ({"mode": "append"}, set()),
        ({"storage_options": {"key": "k"}}, set()),
        ({"options": {"header": True, "sep": ";", "compression": "zstd"}}, set()),
        ({"options": {"header": True, "sep": ";"}}, set()),
        ({"options": {"HEADER": "TRUE", "Delimiter": ";"}}, set()),
        ({"options": {"sep": ";"}}, {"option.header"}),
        ({"options": {"header": False, "sep": ";"}}, {"option.header"}),
        ({"options": {"header": True}}, {"option.sep"}),
        *(
            ({"options": {**SINK["options"], name: "x"}}, {f"option.{key}"})
            for name, key in [
                ("quote", "quote"),
                ("escape", "escape"),
                ("lineSep", "linesep"),
                ("charset", "encoding"),
                ("nullValue", "nullvalue"),
                ("emptyValue", "emptyvalue"),
                ("dateFormat", "dateformat"),
                ("timestampFormat", "timestampformat"),
            ]
        ),
    ],
)
def test_a_change_that_readers_must_know_is_refused(change: dict[str, Any], keys: set[str]) -> None:
    assert refused(FileSink(**SINK), FileSink(**{**SINK, **change})) == keys


def test_an_explicit_default_is_not_a_change() -> None:
    options = {"header": False, "sep": ",", "quote": '"', "escape": "\\", "encoding": "UTF-8"}
    assert refused(FileSink("/lake", "csv"), FileSink("/lake", "csv", options=options)) == set()


def test_an_option_wins_over_its_alias_as_in_spark() -> None:
    sink = FileSink("/lake", "csv", options={"delimiter": "|", "sep": ";"})
    assert sink.definition()["option.sep"] == ";"


def test_options_of_other_formats_are_ignored() -> None:
    assert refused(FileSink("/lake"), FileSink("/lake", options={"header": True, "dateFormat": "y"})) == set()


def test_spellings_of_one_path_have_the_same_definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spellings = ("lake/x", "./lake/x/", f"{tmp_path}/lake/x", f"file://{tmp_path}/lake/x")
    paths = {FileSink(spelling).definition()["path"] for spelling in spellings}
    bound: BoundFileSink = FileSink("lake/x").bind(SinkContext("orders", "lake"))
    assert paths == {f"file://{tmp_path}/lake/x"}
    assert f"'{next(iter(paths))}'" in repr(bound)
    assert FileSink("s3a://lake/x/").definition()["path"] == FileSink("s3://lake/x").definition()["path"]


def test_a_tilde_in_a_path_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert FileSink("~/lake").definition()["path"] == "file:///home/ada/lake"


def test_a_definition_is_json_without_secrets() -> None:
    options = {"parquet.encryption.key.list": "k:hunter2", "compression": "zstd", "note": "hunter2"}
    sink = FileSink("abfs://container/lake", options=options, storage_options={"account_key": "hunter2"})
    definition = sink.definition()
    assert json.loads(json.dumps(definition)) == definition
    assert "hunter2" not in json.dumps(definition)
    assert definition == {
        "type": "airflow_provider_ckpt.sinks.file.file_sink.FileSink",
        "path": "abfs://container/lake",
        "format": "parquet",
        "partition_by": [],
        "mode": "errorifexists",
        "compression": "zstd",
    }
