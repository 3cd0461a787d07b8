"""Journal of splits. A split counts as read when a completed checkpoint covers it."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.event_codec import decode, encode
from airflow_provider_ckpt.journal.kinds.splits import covered_splits
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.split import numbers, ranges, size, union
from airflow_provider_ckpt.model.worker import Worker
from tests.journal.samples import folded, of_splits
from tests.support.definitions import STREAMING

GOLDEN = Path(__file__).parents[1] / "golden" / "splits-v1"
HISTORY = JobVertex("history", ("history",), ("history",), ("history",), (), bounded=True, parallelism=2, splits=True)
GRAPH = JobGraph((HISTORY,), ())


def planned(*events: ev.Event) -> JobState:
    """Return the state of a job that is planned, after these events."""
    claim, plan = ev.EpochClaimed(1, "t", Worker(), 0.0), ev.PlanRecorded(GRAPH, {}, 0.0, STREAMING)
    return folded(claim, plan, *events, job_id="job")


def completed(checkpoint: int) -> ev.CheckpointCompleted:
    return ev.CheckpointCompleted(checkpoint, 1.0, 2.0, "checkpoint", {}, {})


def test_split_progress_counts_the_journaled_splits() -> None:
    (progress,) = planned(*of_splits()).split_progress()
    assert (progress.total, progress.done, progress.assigned, progress.left) == (10, 2, 4, 4)


def test_a_new_driver_assigns_splits_again_and_keeps_done_ones() -> None:
    (progress,) = planned(*of_splits(), ev.EpochClaimed(2, "t", Worker(), 5.0)).split_progress()
    assert (progress.done, progress.assigned, progress.left) == (2, 0, 8)


def test_all_splits_of_an_ended_source_count_as_done() -> None:
    """The last splits are in the logs and are never reported. A user must not think that some are missing."""
    first, second = (SubtaskId(f"history/{number}") for number in range(2))
    ended = ev.SubtaskFinished(first, "0001-ab", 6.0)
    (with_one_reader,) = planned(*of_splits(), ended).split_progress()
    assert (with_one_reader.done, with_one_reader.left) == (2, 4)
    (progress,) = planned(*of_splits(), ended, ev.SubtaskEndOfData(second, "0001-ab", 6.0)).split_progress()
    assert (progress.total, progress.done, progress.assigned, progress.left) == (10, 10, 0, 0)


def test_r14_a_checkpoint_that_did_not_complete_covers_nothing() -> None:
    """The coverage shares an entry with the completion, but a full write buffer may separate the two."""
    state = planned(*of_splits(), completed(2), ev.SplitsCovered("history", 3, ((5, 6),)))
    assert numbers(covered_splits(state, "history", state.last_completed)) == {0, 4}
    completed(3).apply(state)
    assert numbers(covered_splits(state, "history", state.last_completed)) == {0, 4, 5}


def test_r14_a_restore_returns_to_what_its_checkpoint_covers() -> None:
    later: list[ev.Event] = [
        ev.SplitsDone("history", SubtaskId("history/0"), ((1, 3),), 3.0),
        ev.SplitsCovered("history", 3, ((1, 2),)),
    ]
    state = planned(*of_splits(), completed(2), *later, ev.Restored(2, {}, 9.0))
    assert state.splits_done == {"history": ((0, 1), (4, 5))}
    completed(4).apply(state)
    assert numbers(covered_splits(state, "history", state.last_completed)) == {0, 4}


def test_a_job_restarted_from_scratch_has_read_no_split() -> None:
    state = planned(*of_splits(), completed(2), ev.Restored(2, {}, 9.0, from_scratch=True))
    assert (state.splits_done, state.splits_covered) == ({"history": ()}, {"history": {}})


def test_a_removed_source_leaves_no_splits_behind() -> None:
    state = planned(*of_splits(), completed(2), ev.PlanRecorded(JobGraph((), ()), {}, 9.0, STREAMING))
    assert (state.splits_assigned, state.splits_done, state.splits_covered) == ({}, {}, {})


@pytest.mark.parametrize("seed", range(50))
def test_ranges_behave_like_sets(seed: int) -> None:
    random = Random(seed)
    first, second = ({random.randrange(20) for _ in range(random.randrange(15))} for _ in range(2))
    assert numbers(ranges(first)) == first
    assert size(ranges(first)) == len(first)
    assert union(ranges(first), ranges(second)) == ranges(first | second)


def test_golden_events_of_splits_are_read_and_written() -> None:
    golden = json.loads((GOLDEN / "events.json").read_text())
    assert [decode(event) for event in golden] == of_splits()
    assert [json.loads(encode(event)) for event in of_splits()] == golden
