"""Sinks of a job, rebuilt from its journal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.job.definition_parts import sink_definitions
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.model.definition import JobDefinition, SinkDefinition
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.file.journaled_sinks import RecordedSink, not_recorded, recorded_job, recorded_sinks
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import canonical_uri

ROOTS = {"/": Location("/lake/ckpt"), "s": Location("s3://lake/ckpt", {"key": "k"})}


def recorded(target: dict[str, Any], release: str = "every_checkpoint") -> JobDefinition:
    """Return a job definition as it is read back from the journal."""
    return JobDefinition("streaming", {}, {}, {"out": SinkDefinition(release, json.loads(json.dumps(target)))})


@dataclass(frozen=True)
class OwnSink(FileSink):
    pass


@pytest.mark.parametrize(
    "sink",
    [
        FileSink("/lake/out"),
        FileSink("s3://lake/out", format="json", mode="append"),
        FileSink("/lake/out", format="csv", partition_by=["day", "shop"], options={"header": True, "Delimiter": ";"}),
        FileSink("/lake/out", options={"compression": "zstd", "maxRecordsPerFile": 7}, mode="overwrite"),
    ],
    ids=lambda sink: sink.format,
)
def test_a_file_sink_is_rebuilt_from_its_definition(sink: FileSink) -> None:
    (rebuilt,) = recorded_job(recorded(sink.definition(), "final"), ROOTS[sink.path[0]]).sinks
    assert (rebuilt.uid, rebuilt.release) == ("out", "final")
    assert rebuilt.sink.definition() == sink.definition()
    assert (rebuilt.sink.path, rebuilt.sink.mode) == (canonical_uri(sink.path), sink.mode)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "change",
    [{"type": "somebody.Else"}, {"path": 7}, {"bucketing": "by day"}, {"option.unheard": "of"}, {"format": "xml"}],
    ids=str,
)
def test_a_sink_with_an_unknown_definition_is_not_rebuilt(change: dict[str, Any]) -> None:
    target = {**FileSink("/lake/out", format="csv").definition(), **change}
    rebuilt = recorded_job(recorded(target), ROOTS["/"]).sinks
    # only the sink's own validation refuses this format, when it is bound
    assert rebuilt == () or change == {"format": "xml"}


def test_sinks_with_own_options_or_of_own_classes_are_not_recorded() -> None:
    sinks = [
        RecordedSink("plain", FileSink("/lake/a"), "final"),
        RecordedSink("secret", FileSink("/lake/b", storage_options={"key": "k"}), "final"),
        RecordedSink("empty", FileSink("/lake/c", storage_options={}), "final"),
        RecordedSink("own", OwnSink("/lake/d"), "final"),
    ]
    assert not_recorded(sinks) == ["secret", "empty", "own"]


def test_a_sink_with_a_gate_is_not_rebuilt_from_the_journal() -> None:
    """The journal records that there is a gate, but not its code."""
    job = Job("orders")

    @job.source
    def live(read: Any) -> Any:
        raise AssertionError("nothing is planned")

    job.sink("plain", live, FileSink("/lake/a"))
    job.sink("gated", live, FileSink("/lake/b"), gate=lambda pending: True)
    assert not_recorded(job.sinks) == ["gated"]
    definition = JobDefinition("streaming", {}, {}, sink_definitions(job.sinks))
    assert [sink.uid for sink in recorded_job(definition, ROOTS["/"]).sinks] == ["plain"]


def test_relative_paths_are_recorded_as_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    definition = FileSink("out").definition()
    monkeypatch.chdir("/")
    (rebuilt,) = recorded_job(recorded(definition), ROOTS["/"]).sinks
    assert rebuilt.sink.path == (tmp_path / "out").as_uri()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("root", "path", "is_near"),
    [
        ("/lake/ckpt", "/other/out", True),
        ("file:///lake/ckpt", "/lake/out", True),
        ("s3://lake/ckpt", "s3a://lake/other/out", True),
        ("s3://lake/ckpt", "s3://attacker/out", False),
        ("s3://lake/ckpt", "gs://lake/out", False),
        ("s3://lake/ckpt", "/home/user/out", False),
        ("/lake/ckpt", "s3://lake/out", False),
        ("hdfs://one/ckpt", "hdfs://one:8020/lake/out", True),
        ("hdfs://one/ckpt", "hdfs://two/lake/out", False),
    ],
)
def test_only_sinks_in_the_roots_store_are_rebuilt(
    root: str, path: str, is_near: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who may write to a root can forge its journal. The root's credentials must not reach another store."""
    bound: list[tuple[str, Any]] = []
    monkeypatch.setattr(FileSink, "bind", lambda sink, context: bound.append((sink.path, context.storage_options)))
    definition = recorded(FileSink(path).definition())
    location = Location(root, {"key": "k"})
    assert [sink.uid for sink in recorded_job(definition, location).sinks] == ["out"] * is_near
    assert [*recorded_sinks(definition, "orders", location)] == ["out"] * is_near
    assert bound == [(canonical_uri(path), {"key": "k"})] * is_near
