"""Jobs with several sinks, one of which fails or is held by a gate."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from airflow_provider_ckpt import FileSink, Job, PendingRelease
from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.coordinator.errors import IllegalGraphChangeError
from airflow_provider_ckpt.jobmaster.errors import ReleaseHeldError
from airflow_provider_ckpt.sinks.errors import StagedFilesMissingError
from airflow_provider_ckpt.sinks.file.bound_file_sink import BoundFileSink
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext
from airflow_provider_ckpt.storage.errors import StorageTransientError
from tests.spark.harness import Line, World, stop_on_another_host
from tests.spark.jobs import mixed

pytestmark = [pytest.mark.slow, pytest.mark.spark]

DOWN = StorageTransientError(verb="reach", uri="db", reason="it is down")


@dataclass
class Outage:
    """The error with which the releases of a sink fail, or None."""

    error: Exception | None = None


@dataclass(frozen=True)
class FailingSink(FileSink):
    outage: Outage = field(default_factory=Outage, compare=False, repr=False)

    def bind(self, context: SinkContext) -> BoundFileSink:
        bound: Any = super().bind(context)
        release = bound.release

        def failing(handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
            if self.outage.error is not None and handles:
                raise self.outage.error
            counts: dict[str, int] = release(handles, checkpoint)
            return counts

        bound.release = failing
        return bound  # type: ignore[no-any-return]


def two_sinks(world: World, outage: Outage) -> Job:
    def sink(path: str) -> FileSink:
        return FailingSink(path, outage=outage) if path.endswith("down") else FileSink(path)

    return mixed(world, sinks=("out", "down"), sink=sink)


def gated(world: World, is_open: list[bool], asked: list[PendingRelease] | None = None) -> Job:
    def gate(pending: PendingRelease) -> bool:
        if asked is not None:
            asked.append(pending)
        return is_open[0]

    job = mixed(world, sinks=("out", "down"))
    operators = dict(job.operators)
    operators["down"] = replace(operators["down"], gate=gate)
    return job.with_operators(operators)


def test_r9_a_failing_sink_delays_no_other_and_catches_up_once(world: World) -> None:
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 3, 2, start=100)
    outage = Outage(DOWN)
    drain = world.drain_at(len(expected))

    def on_line(line: Line) -> None:
        if outage.error is not None and world.released_count("out") == len(expected):
            assert world.released_count("down") == 0
            outage.error = None
        drain(line)

    run = world.run(two_sinks(world, outage), on_line)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert any("sink down: has waited" in line["message"] for line in run.lines)
    for sink in ("out", "down"):
        assert world.released_ids(sink) == sorted(expected)
    state = world.state()
    assert (state.last_released, state.sinks_released) == (state.last_completed, {})
    rows = {
        uid: sum(release.sinks.get(uid, {}).get("rows", 0) for release in state.releases.values())
        for uid in ("out", "down")
    }
    assert rows == {"out": len(expected), "down": len(expected)}


def test_r9_the_next_run_releases_the_rest_to_a_repaired_sink(world: World) -> None:
    """The run is FAILED, and the working sinks have all completed output.

    The other sink gets the rest after the repair.
    """
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 2, 2, start=100)
    lost = StagedFilesMissingError(job="job", checkpoint=1, sink="down", count=1, path="p", uri="u")
    outage = Outage(lost)
    run = world.run(two_sinks(world, outage))
    assert run.status == "FAILED"
    assert "in 'down' failed" in str(run.cause)
    state = world.state()
    assert state.last_released < state.last_completed
    assert state.sinks_released == {"out": state.last_completed}
    outage.error = None
    run = world.run(two_sinks(world, outage), world.drain_at(len(expected), "out", "down"), resume_failed=True)
    assert run.status == "FINISHED"
    for sink in ("out", "down"):
        assert world.released_ids(sink) == sorted(expected)


def test_a_gate_holds_one_sink_while_the_job_runs_stops_and_resumes(world: World) -> None:
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 2, 2, start=100)
    is_open, asked = [False], list[PendingRelease]()
    stop = world.ask("stop", lambda: world.released_count("out") == len(expected))
    stop_on_another_host(world, gated(world, is_open, asked), stop)
    assert world.released_count("down") == 0
    assert {pending.sink for pending in asked} == {"down"}
    assert 0 < asked[-1].rows <= len(expected)

    job = gated(world, is_open)
    with pytest.raises(ReleaseHeldError, match=r"not released in down"):
        JobClient(world.storage, world.job_id).release(job)
    assert world.released_count("down") == 0

    def on_line(line: Line) -> None:
        if line["kind"] == "running":
            world.request("drain")  # the drain waits for the gate
        elif "the gate of 'down' holds" in line["message"]:
            is_open[0] = True

    run = world.run(job, on_line)
    assert run.status == "FINISHED"
    for sink in ("out", "down"):
        assert world.released_ids(sink) == sorted(expected)


def test_r7_a_gate_closed_for_long_keeps_rows_and_not_each_log_entry(world: World) -> None:
    """The sink gets the rows from the current run, or from a run that reads the log from storage."""
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 2, 2, start=100)
    is_open = [False]
    staged = list[int]()

    def is_long() -> bool:
        """Return True once 100 checkpoints have completed after the first checkpoint that covers all rows."""
        if not staged and world.released_count("out") == len(expected):
            staged.append(world.state().last_completed)
        return bool(staged) and world.state().last_completed >= staged[0] + 100

    stop = world.ask("stop", is_long)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: "worker-7")
        assert world.run(gated(world, is_open), stop, checkpoint_interval=0.03).status == "STOPPED"
    last = world.state().last_completed
    entries = {name.vertex: len(world.records(name.vertex)) for name in world.state().checkpoints[last].subtasks}
    assert max(entries.values()) < 80, entries
    assert (world.released_count("out"), world.released_count("down")) == (len(expected), 0)

    def on_line(line: Line) -> None:
        if world.state().last_completed >= last + 60 and not is_open[0]:
            is_open[0] = True
            world.request("drain")

    assert world.run(gated(world, is_open), on_line, checkpoint_interval=0.03).status == "FINISHED"
    for sink in ("out", "down"):
        assert world.released_ids(sink) == sorted(expected)


def test_a_sink_can_be_removed_only_once_its_output_is_released(world: World) -> None:
    """Its staged output would count as released once the other sinks have released theirs."""
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 2, 2, start=100)
    is_open = [False]
    stop = world.ask("stop", lambda: world.released_count("out") == len(expected))
    stop_on_another_host(world, gated(world, is_open), stop)
    before = world.state()

    with pytest.raises(IllegalGraphChangeError, match=r"ckpt release") as refused:
        world.run(mixed(world), world.drain_at(len(expected)), allow_non_restored_state=True)
    assert refused.value.data["sink"] == "down"
    assert refused.value.data["completed"] == before.last_completed > refused.value.data["released"]
    assert world.state().unreleased == before.unreleased

    is_open[0] = True
    JobClient(world.storage, world.job_id).release(gated(world, is_open))
    assert world.released_ids("down") == sorted(expected)
    run = world.run(mixed(world), world.drain_at(len(expected)), allow_non_restored_state=True)
    assert run.status == "FINISHED"
    assert world.released_ids("out") == sorted(expected)


def test_removing_a_final_only_sink_discards_its_staged_output(world: World) -> None:
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 2, 2, start=100)
    job = mixed(world, sinks=("out", "down"))
    operators = dict(job.operators)
    operators["down"] = replace(operators["down"], release="final")
    stop = world.ask("stop", lambda: world.released_count("out") == len(expected))
    assert world.run(job.with_operators(operators), stop).status == "STOPPED"
    with pytest.raises(IllegalGraphChangeError, match="the job is not the one its journal describes"):
        world.run(mixed(world))
    run = world.run(mixed(world), world.drain_at(len(expected)), allow_non_restored_state=True)
    assert run.status == "FINISHED"
    assert world.released_ids("out") == sorted(expected)


@pytest.mark.parametrize("release", ["every_checkpoint", "final"])
def test_a_sink_held_at_the_final_checkpoint_cannot_be_removed(world: World, release: Any) -> None:
    """The output of the sink is part of a completed checkpoint.

    Without the refusal it would never be released, and the job would be FINISHED.
    """
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 2, 2, start=100)
    is_open = [False]

    def held() -> Job:
        job = gated(world, is_open)
        operators = dict(job.operators)
        operators["down"] = replace(operators["down"], release=release)
        return job.with_operators(operators)

    drain = world.drain_at(len(expected))

    def on_line(line: Line) -> None:
        drain(line)
        state = world.state()
        if "down" not in state.sinks_released and any(
            checkpoint.kind == "final" for checkpoint in state.checkpoints.values()
        ):
            world.request("stop")

    stop_on_another_host(world, held(), on_line)
    with pytest.raises(IllegalGraphChangeError, match=r"ckpt release"):
        world.run(mixed(world), allow_non_restored_state=True)
    assert world.state().status == "STOPPED"
    with pytest.raises(ReleaseHeldError, match=r"not released in down"):
        JobClient(world.storage, world.job_id).release(held())
    is_open[0] = True
    run = world.run(held())
    assert run.status == "FINISHED"
    for sink in ("out", "down"):
        assert world.released_ids(sink) == sorted(expected)


def test_an_interrupted_release_outside_a_run_leaves_the_job_unchanged(world: World) -> None:
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 2, 2, start=100)
    stop = world.ask("stop", lambda: world.released_count("out") == len(expected))
    stop_on_another_host(world, gated(world, [False]), stop)

    def interrupted(pending: PendingRelease) -> bool:
        raise KeyboardInterrupt

    job = gated(world, [True])
    operators = dict(job.operators)
    operators["down"] = replace(operators["down"], gate=interrupted)
    with pytest.raises(KeyboardInterrupt):
        JobClient(world.storage, world.job_id).release(job.with_operators(operators))
    state = world.state()
    assert (state.status, state.is_held) == ("STOPPED", False)
    JobClient(world.storage, world.job_id).release(gated(world, [True]))
    assert world.released_ids("down") == sorted(expected)
