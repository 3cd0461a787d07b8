"""Sources with splits whose number of subtasks changes while real queries run: every row is released once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.event_codec import decode
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.spark.preparation.decision import decide
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.layout import journal_path
from airflow_provider_ckpt.storage.log.append_log import AppendLog
from airflow_provider_ckpt.storage.memory import MemoryStorage
from tests.spark.faults import HookedStorage
from tests.spark.harness import Line, World
from tests.spark.split_jobs import (
    SplitReader,
    completed_splits,
    done_splits,
    ids_of,
    only_splits,
    query_of_splits,
    sink_of_splits,
    splits,
)
from tests.support.waiting import wait_until


class RescaleRequester:
    """A function for splits that waits from the third split on, until a rescale was requested and ``when`` holds."""

    def __init__(self, world: World, parallelism: int, when: Callable[[str], bool] = lambda split: True) -> None:
        self._world, self._parallelism, self._when = world, parallelism, when
        self._free, self._lock = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None
        self.answer: RequestOutcome | None = None
        self.error: Exception | None = None

    def __call__(self, split: str) -> None:
        if split in ("part-0", "part-1") or self._free.is_set():
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._ask, daemon=True)
                self._thread.start()
        assert self._free.wait(60)

    def _ask(self) -> None:
        """Request the rescale.

        The functions of the splits wait, so the new subtasks start before the old ones continue.
        """
        try:
            client = JobClient(str(self._world.root), self._world.job_id)
            wait_until(lambda: client.read_state().status == "RUNNING", "a job that runs")
            request = client.rescale("parts", self._parallelism)
            self.answer = client.answer(request, 60).outcome
        except Exception as error:
            self.error = error
        finally:
            self._free.set()


def graph_changes(world: World) -> list[ev.GraphChange]:
    log = AppendLog(world.storage, journal_path(world.job_id), format="journal")
    events = [decode(event) for entry in log.load() for event in entry.body["events"]]
    decided = [event.graph for event in events if isinstance(event, ev.Reconfigured)]
    return [graph for graph in decided if graph is not None]


@pytest.mark.parametrize("make", [query_of_splits, sink_of_splits])
def test_more_subtasks_read_the_remaining_splits_next_to_a_live_source(world: World, make: Callable[..., Any]) -> None:
    given = splits(14)
    requester = RescaleRequester(world, 3)
    live = world.put_ids("live", 1, 2, 1000)
    raw = ["raw"] if make is sink_of_splits else []
    rows = ids_of(given)
    drain = world.drain_at(len(rows) + (0 if raw else len(live)), *raw)
    run = world.run(make(world, given, SplitReader(then=requester), parallelism=1), drain)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert (requester.error, str(requester.answer)) == (None, "completed: parts is read by 3")
    everything = world.released_ids() + (world.released_ids("raw") if raw else [])
    assert sorted(everything) == sorted([*rows, *live])
    assert done_splits(world, given, 3) == {split["id"] for split in given}
    assert set(completed_splits(world, 3).values()) == {0, 1, 2}
    state = world.state()
    assert (state.epoch, state.graph().vertex("parts").parallelism) == (1, 3)
    assert "parts" in state.finished_operators()


def test_fewer_subtasks_read_the_remaining_splits(world: World) -> None:
    given = splits(16)
    requester = RescaleRequester(world, 1)
    run = world.run(query_of_splits(world, given, SplitReader(then=requester), parallelism=3), world.drain_at(48))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert (requester.error, str(requester.answer)) == (None, "completed: parts is read by 1")
    assert world.released_ids() == ids_of(given)
    assert done_splits(world, given, 3) == {split["id"] for split in given}


def test_in_batch_mode_the_consumer_waits_for_added_subtasks(world: World) -> None:
    given = splits(14)
    requester = RescaleRequester(world, 3)
    run = world.run(only_splits(world, given, SplitReader(then=requester), parallelism=1))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert (requester.error, str(requester.answer)) == (None, "completed: parts is read by 3")
    assert world.released_ids() == world.released_ids("raw") == ids_of(given)
    assert set(completed_splits(world, 3).values()) == {0, 1, 2}


def test_r21_the_next_driver_applies_a_rescale_committed_before_a_crash(world: World) -> None:
    """The log of the first new subtask cannot be opened. The user need not request the change again."""
    given = splits(14)
    requester = RescaleRequester(world, 3)

    def hook(verb: str, path: str) -> None:
        if "/parts/1/log" in path or "/parts/2/log" in path:
            raise StorageTransientError(verb=verb, uri=path, reason="on purpose")

    storage = HookedStorage(world.storage, hook)
    run = world.run(query_of_splits(world, given, SplitReader(then=requester), parallelism=1), storage=storage)
    assert run.status == "RESTARTING"
    assert "parts/" in str(run.cause)
    assert str(requester.answer).startswith("failed: the job became RESTARTING first; later runs apply it")
    assert len(graph_changes(world)) == 1
    assert world.run(query_of_splits(world, given, parallelism=1), world.drain_at(42)).status == "FINISHED"
    assert world.released_ids() == ids_of(given)
    assert world.state().graph().vertex("parts").parallelism == 3
    assert len(set(completed_splits(world, 3).values())) > 1
    assert world.state().plan is not None
    assert dict(world.state().plan.rescaled) == {"parts": 3}  # type: ignore[union-attr]


@pytest.mark.slow
def test_r21_a_restart_from_scratch_keeps_the_rescale(world: World) -> None:
    """A job with batch_recovery=False drops the rows it had read, but keeps the user's request."""
    given, requester = splits(14), RescaleRequester(world, 3)

    def hook(verb: str, path: str) -> None:
        if "/parts/1/log" in path or "/parts/2/log" in path:
            raise StorageTransientError(verb=verb, uri=path, reason="on purpose")

    died = world.run(
        only_splits(world, given, SplitReader(then=requester), parallelism=1),
        storage=HookedStorage(world.storage, hook),
    )
    assert died.status == "RESTARTING"
    assert str(requester.answer).startswith("failed: the job became RESTARTING first; later runs apply it")
    run = world.run(only_splits(world, given, parallelism=1), batch_recovery=False)
    assert (run.status, len(run.of("anew"))) == ("FINISHED", 1)
    assert world.released_ids() == world.released_ids("raw") == ids_of(given)
    plan = world.state().plan
    assert plan is not None
    assert dict(plan.rescaled) == {"parts": 3}
    assert set(completed_splits(world, 3).values()) == {0, 1, 2}


def test_r21_a_graph_change_during_the_preparation_repeats_it(tmp_path: Path) -> None:
    """Otherwise the driver would run without the new subtasks, to which splits are handed out."""
    storage, options = (
        MemoryStorage(str(tmp_path)),
        RunOptions.from_json({"job": "j.py:job", "root": "x", "job_id": "j"}),
    )
    journal = Journal(storage, "j")
    journal.claim("t", Worker(), 1.0)
    parts = JobVertex("parts", ("parts",), ("parts",), ("parts",), (), bounded=True, splits=True)
    graph = JobGraph((parts,), ())
    journal.write(ev.JobCreated("j", graph, "streaming", SubmittedOptions({}), 1.0))
    journal.write(ev.PlanRecorded(graph, {}, 1.0, JobDefinition("streaming", {}, {}, {})))
    ready = decide(storage, options, Journal(storage, "j").replay())
    assert ready == decide(storage, options, Journal(storage, "j").replay())
    wider = graph.rescaled({"parts": 3})
    journal.write(ev.Reconfigured(1, {}, 2.0, ev.GraphChange(wider, {"parts": 3})))
    more = decide(storage, options, Journal(storage, "j").replay())
    assert more != ready
    journal.write(ev.Reconfigured(2, {}, 3.0, ev.GraphChange(wider, {"parts": 1})))
    assert decide(storage, options, Journal(storage, "j").replay()) not in (ready, more)


def test_a_rescaled_number_holds_until_another_one_is_declared(world: World) -> None:
    given = splits(20)
    requester = RescaleRequester(world, 3)
    stopped = threading.Event()

    def then(split: str) -> None:
        requester(split)
        if split == "part-12":
            stopped.wait(60)

    def stop(line: Line) -> None:
        if requester.answer is not None and not stopped.is_set():
            world.request("stop")
            stopped.set()

    run = world.run(query_of_splits(world, given, SplitReader(then=then), parallelism=1), stop)
    assert run.status == "STOPPED"
    read = SplitReader()
    run = world.run(query_of_splits(world, given, read, parallelism=2), world.drain_at(60))
    assert run.status == "FINISHED"
    assert world.released_ids() == ids_of(given)
    assert world.state().plan is not None
    assert dict(world.state().plan.rescaled) == {}  # type: ignore[union-attr]
