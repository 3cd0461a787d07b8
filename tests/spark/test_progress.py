"""The way in which a runner learns that Spark has committed a micro-batch."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryListener

from airflow_provider_ckpt.spark.task.streaming.progress_listener import ProgressListener
from airflow_provider_ckpt.spark.task.streaming.streaming_runner import StreamingRunner
from tests.spark.harness import World
from tests.spark.jobs import mixed


def runner(query_id: str | None) -> Any:
    made = create_autospec(StreamingRunner, instance=True)
    made.query_id = query_id
    return made


def test_a_live_batch_is_published_without_python_events(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python object costs half a second an event.

    No other batch follows a live batch for a while, so it is published only because of its event.
    """
    made: list[Any] = []

    def from_java(event: Any) -> Any:
        made.append(event)
        raise AssertionError("not wanted")

    monkeypatch.setattr(QueryProgressEvent, "fromJObject", from_java)
    world.put_ids("history", 1, 2)
    world.put_ids("live", 1, 2, start=100)
    run = world.run(mixed(world), world.drain_at(4, "out"))
    assert run.status == "FINISHED"
    assert len(world.released_ids()) == 4
    assert made == []


def test_a_batch_with_a_lost_event_is_published(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark drops events when its queue is full. After a last batch there is no other event."""
    lost: list[str] = []
    monkeypatch.setattr(ProgressListener, "committed", lambda self, query: lost.append(query))
    world.put_ids("history", 1, 2)
    world.put_ids("live", 1, 2, start=100)
    run = world.run(mixed(world, chain=False), world.drain_at(4, "out"))
    assert run.status == "FINISHED"
    assert sorted(world.released_ids()) == [0, 1, 100, 101]
    assert lost


def test_a_python_event_of_pyspark_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PySpark version that ignores the object that we give to the JVM passes on such events."""
    query = uuid.uuid4()
    mine, other, none = runner(str(query)), runner(str(uuid.uuid4())), runner(None)
    runners: Any = {"a/0": mine, "b/0": other, "c/0": none}
    listener: StreamingQueryListener = ProgressListener(runners)
    event: Any = SimpleNamespace(progress=SimpleNamespace(id=query))
    listener.onQueryProgress(event)
    assert [observer.on_progress.call_count for observer in (mine, other, none)] == [1, 0, 0]
