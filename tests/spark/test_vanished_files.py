"""Files of the frozen list that vanish before they are read: their source could never end (R11)."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from airflow_provider_ckpt.task import bounded_offsets
from airflow_provider_ckpt.task.bounded_offsets import FIRST_CHECK, LONGEST_PAUSE, BoundedOffsets
from airflow_provider_ckpt.task.errors import SourceFilesGoneError
from airflow_provider_ckpt.task.vertex_inputs import BoundedInput
from tests.spark.faults import HookedStorage
from tests.spark.harness import World
from tests.spark.jobs import mixed


def source(*remaining: str) -> BoundedInput:
    return BoundedInput("history", set(remaining), frozenset(remaining))


def test_a_source_without_progress_is_checked_at_growing_intervals() -> None:
    history = source("a", "b")
    looks = [now for now in range(3000) if history.is_stuck(float(now))]
    pauses = [after - before for before, after in pairwise(looks)]
    assert looks[0] == FIRST_CHECK
    assert pauses[:6] == [60, 120, 240, 480, LONGEST_PAUSE, LONGEST_PAUSE]


def test_progress_delays_the_check_and_an_ended_source_is_not_checked() -> None:
    history = source("a", "b")
    assert not history.is_stuck(0.0)
    history.read({"a"})
    assert not history.is_stuck(FIRST_CHECK)
    assert history.is_stuck(2 * FIRST_CHECK)
    history.read({"b"})
    assert not any(history.is_stuck(float(now)) for now in range(100, 3000))


def topic() -> BoundedOffsets:
    return BoundedOffsets("history", {("orders", 0): 100, ("orders", 1): 5})


def test_rows_of_one_kafka_partition_delay_the_check() -> None:
    orders = topic()
    for now in range(0, 600, 20):
        assert not orders.is_stuck(float(now))
        orders.read(json.dumps({"orders": {"0": now // 10 + 1, "1": 1}}))
    assert not orders.is_stuck(600.0)
    assert orders.is_stuck(600.0 + FIRST_CHECK)
    orders.read(json.dumps({"orders": {"0": 100, "1": 5}}))
    assert orders.at_end()
    assert not any(orders.is_stuck(float(now)) for now in range(700, 3000))


def test_lost_rows_are_reported_only_after_two_equal_checks() -> None:
    """A broker that has just started reports that an existing topic is unknown."""
    orders, gone = topic(), "Topic orders is gone."
    assert [orders.has_lost_rows(why) for why in (gone, None, gone, "It ends at 7.", gone)] == [False] * 5
    orders.read(json.dumps({"orders": {"0": 1}}))
    assert not orders.has_lost_rows(gone), "rows were read between the checks"
    assert orders.has_lost_rows(gone)


def test_only_a_missing_file_is_refused() -> None:
    history = source("lake/a", "lake/b")
    history.refuse_missing(["lake/a", "lake/b", "lake/c"])
    with pytest.raises(SourceFilesGoneError, match=r"bounded source 'history' .* lake/b among them"):
        history.refuse_missing(["lake/a"])


@pytest.mark.parametrize("chain", [True, False], ids=["inline", "own vertex"])
def test_a_job_with_vanished_history_fails_until_the_file_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch, chain: bool
) -> None:
    monkeypatch.setattr(bounded_offsets, "FIRST_CHECK", 1.0)
    expected = world.put_ids("history", 4, 2) | world.put_ids("live", 1, 2, 1000)
    last = max(Path(world.path("history")).glob("*.parquet"))
    kept = world.base / "kept"

    def hook(verb: str, path: str) -> None:
        """Move the last file away right after the list was frozen."""
        if "/log/" in path and not kept.exists():
            last.rename(kept)

    failed = world.run(mixed(world, chain=chain), storage=HookedStorage(world.storage, hook))
    assert failed.status == "FAILED"
    assert failed.cause is not None
    assert last.name in failed.cause
    kept.rename(last)
    run = world.run(mixed(world, chain=chain), world.drain_at(len(expected)), resume_failed=True)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
