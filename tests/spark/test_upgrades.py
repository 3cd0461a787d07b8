"""Upgrades of a running job to another version, in the same driver.

Each row is released once, and a version that does not fit is not adopted.
"""

from __future__ import annotations

import sys
import textwrap
import threading
from pathlib import Path

import pytest

from airflow_provider_ckpt import FileSink
from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.loading.loading import load_job
from airflow_provider_ckpt.job.loading.module_space import ModuleSpace
from airflow_provider_ckpt.journal.errors import FencedError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.counting_job import UserScript, check_counting, counting, expected_counts, final_counts
from tests.spark.faults import Fault, FaultyStorage
from tests.spark.harness import Line, World
from tests.spark.jobs import IDS
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

COUNTED = 'return rows.groupBy("k").agg(F.count("*").alias("n"), F.max("id").alias("last"))'


def version(world: World, name: str, marked: str = "", counts: str = "", more: str = "", sinks: str = "") -> str:
    """Write a file with a version of the job, its sinks included; return its reference."""
    marked = marked or 'return rows.withColumn("by", F.lit("two"))'
    counts = counts or COUNTED
    path = Path(world.path("versions")) / f"{name}.py"
    text = f"""
        from pyspark.sql import functions as F
        from airflow_provider_ckpt import FileSink, Job

        job = Job("counting")

        @job.source(max_files_per_trigger=1)
        def live(read):
            return read.schema("{IDS}").parquet("{world.path("live")}")

        @job.transform(inputs=[live], chain=False)
        def marked(rows):
            {marked}

        @job.transform(inputs=[live], chain=False, output_mode="update")
        def counts(rows):
            {counts}

        job.sink("out", marked, FileSink("{world.path("out")}"))
        job.sink("counted", counts, FileSink("{world.path("counted")}"))
        """
    path.write_text(textwrap.dedent(text) + textwrap.dedent(more))
    return f"{path}:job"


def with_more(world: World, name: str) -> str:
    """Write a version with more operators; return its reference.

    They are a sink of a query, a query that reads it, and a query with its own source.
    """
    more = f"""
        job.sink("copies", marked, FileSink("{world.path("copies")}"))

        @job.transform(inputs=[marked])
        def further(rows):
            return rows.withColumn("more", F.lit(True))

        job.sink("further_out", further, FileSink("{world.path("further_out")}"))

        @job.source(bounded=True, allow_empty=True)
        def past(read):
            return read.schema("{IDS}").parquet("{world.path("past")}")

        job.sink("old", past, FileSink("{world.path("old")}"))
        """
    return version(world, name, more=more)


class Journaled(WrappedStorage):
    """A storage that records the journal's entries."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.entries: list[bytes] = []

    def create(self, path: str, data: bytes) -> None:
        if "/journal/" in path:
            self.entries.append(data)
        super().create(path, data)


def upgrade(script: UserScript, job: str | None, *, allow_non_restored_state: bool = False) -> RequestOutcome:
    asked = script.client.upgrade(job, allow_non_restored_state=allow_non_restored_state)
    outcome = script.client.answer(asked, 60).outcome
    assert outcome is not None
    return outcome


def test_an_upgrade_adds_operators_in_the_same_driver(world: World) -> None:
    world.put_ids("live", 1, 10)
    world.put_ids("past", 1, 5)
    outcomes: list[RequestOutcome] = []
    statuses: list[JobStatus | None] = []

    def work(script: UserScript) -> None:
        script.put(10)
        outcomes.append(upgrade(script, with_more(world, "v2")))
        assert outcomes[-1].is_carried_out, outcomes
        assert script.client.read_state().status == "RUNNING"
        script.put(20)
        wait_until(lambda: (world.released_count("copies"), world.released_count("old")) == (10, 5), "the new sinks")

    journaled = Journaled(world.storage)
    with UserScript(world, work):
        run = world.run(counting(world), lambda line: statuses.append(world.state().status), journaled)

    assert (run.status, [outcome.result.value for outcome in outcomes]) == ("STOPPED", ["completed"]), (
        run.cause,
        outcomes,
    )
    assert any(b"the job runs as" in entry for entry in journaled.entries)
    assert not any(b"refused" in entry for entry in journaled.entries), "the version is not upgraded once more"
    check_counting(world, 30)
    by = {row["id"]: row["by"] for row in world.released()}
    assert [by[i] for i in range(30)] == ["one"] * 20 + ["two"] * 10
    assert world.released_ids("further_out") == world.released_ids("copies") == [*range(20, 30)]
    assert world.released_ids("copies") == list(range(20, 30))
    assert world.released_ids("old") == list(range(5))
    assert (world.state().epoch, world.state().driver_since) == (2, 1)
    assert not {JobStatus.RESTARTING, JobStatus.STOPPED} & set(statuses[:-1]), "no status reports an end"
    assert [line["driver_before"] for line in run.of("resumed")] == ["upgraded"]


def test_upgrades_add_and_drop_operators_until_the_next_run(world: World) -> None:
    world.put_ids("live", 1, 10)
    world.put_ids("past", 1, 5)
    outcomes: list[RequestOutcome] = []
    v2, v3 = with_more(world, "v2"), version(world, "v3")

    def work(script: UserScript) -> None:
        script.put(10)
        outcomes.append(upgrade(script, v2, allow_non_restored_state=True))
        script.put(20)
        wait_until(lambda: (world.released_count("copies"), world.released_count("old")) == (10, 5), "the new sinks")
        outcomes.append(upgrade(script, v3))  # the permission was for the previous version
        outcomes.append(upgrade(script, v3, allow_non_restored_state=True))
        script.put(30)

    with UserScript(world, work):
        run = world.run(counting(world))
    assert run.status == "STOPPED", run.cause
    assert [outcome.result.value for outcome in outcomes] == ["completed", "failed", "completed"], outcomes
    assert "past" in outcomes[1].detail
    check_counting(world, 40)
    assert world.released_ids("copies") == list(range(20, 30))
    state = world.state()
    assert (state.epoch, state.driver_since) == (3, 1)
    assert not {"past", "copies"} & set(state.graph().operators)

    with UserScript(world, lambda script: script.put(40)):
        again = world.run(counting(world))
    assert again.status == "STOPPED", again.cause
    check_counting(world, 50)
    assert world.state().driver_since == 0


def test_an_upgrade_cannot_drop_a_sink_with_held_output(world: World) -> None:
    """The trial of the new version does not notice the held output.

    Before the job leaves, all other completed output is released.
    """
    world.put_ids("live", 1, 10)
    open_, outcomes, v2 = threading.Event(), list[RequestOutcome](), version(world, "v2")
    job = counting(world)
    copies = FileSink(world.path("copies"))
    job.sink("copies", job.operators["marked"], copies, gate=lambda release: open_.is_set())

    def work(script: UserScript) -> None:
        script.put(10)
        outcomes.append(upgrade(script, v2, allow_non_restored_state=True))
        assert not outcomes[0].is_carried_out, outcomes
        open_.set()
        script.put(20)
        wait_until(lambda: world.released_count("copies") == 30, "the held rows")

    with UserScript(world, work):
        run = world.run(job)
    assert run.status == "STOPPED", run.cause
    assert outcomes[0].result.value == "failed", outcomes
    assert "copies" in outcomes[0].detail
    check_counting(world, 30)
    assert world.released_ids("copies") == list(range(30))
    assert world.state().epoch == 2


@pytest.mark.parametrize(
    ("given", "why"),
    [
        pytest.param(
            {"marked": 'return rows.withColumn("by", F.lit(2))'},
            "the output of 'marked' changed",
            marks=pytest.mark.slow,
        ),
        ({"marked": 'raise ValueError("no such thing")'}, "ValueError: no such thing"),
        pytest.param(
            {"marked": 'raise KeyboardInterrupt("not now")'}, "KeyboardInterrupt: not now", marks=pytest.mark.slow
        ),
        ({"marked": "return rows +"}, "SyntaxError"),
        pytest.param({"more": "raise SystemExit(0)"}, "SystemExit", marks=pytest.mark.slow),
        (
            {"counts": 'return rows.groupBy("k").agg(F.count("*").alias("n"), F.last("id").alias("last"))'},
            "STATE_STORE",
        ),
        ({"counts": 'return rows.groupBy("k").agg(F.max("id").alias("n"), F.count("*").alias("last"))'}, "kept state"),
        pytest.param({"more": 'job.sink("late", nobody, FileSink("x"))'}, "NameError", marks=pytest.mark.slow),
    ],
    ids=["types", "raises", "interrupts", "syntax", "exits", "state schema", "kept state", "names"],
)
def test_an_unfit_change_leaves_the_job_unchanged(world: World, given: dict[str, str], why: str) -> None:
    world.put_ids("live", 1, 10)
    outcomes: list[RequestOutcome] = []

    def work(script: UserScript) -> None:
        script.put(10)
        outcomes.append(upgrade(script, version(world, "v2", **given)))
        script.put(20)

    spaces = _spaces()
    with UserScript(world, work):
        run = world.run(counting(world))
    assert run.status == "STOPPED", run.cause
    assert outcomes[0].result.value == "failed", outcomes
    assert why in outcomes[0].detail
    assert _spaces() == spaces, "the refused version left no modules"
    assert outcomes[0].detail.endswith("the job continues unchanged")
    check_counting(world, 30)
    assert {row["by"] for row in world.released()} == {"one"}
    assert world.state().epoch == 1
    assert [path for path in world.everything_under_root() if "/trial/" in path] == []


def _spaces() -> int:
    return sum(isinstance(finder, ModuleSpace) for finder in sys.meta_path)


def test_an_upgrade_that_drops_an_operator_needs_consent(world: World) -> None:
    world.put_ids("live", 1, 10)
    outcomes: list[RequestOutcome] = []
    without = version(world, "v2")
    path = Path(without.removesuffix(":job"))
    path.write_text(path.read_text().replace('"counted"', '"summed"').replace("counts", "sums"))

    def work(script: UserScript) -> None:
        script.put(10)
        outcomes.append(upgrade(script, without))
        script.put(20)

    with UserScript(world, work):
        run = world.run(counting(world))
    assert run.status == "STOPPED", run.cause
    assert outcomes[0].result.value == "failed", outcomes
    assert "counts" in outcomes[0].detail
    check_counting(world, 30)


def test_the_job_continues_unchanged_if_the_new_version_cannot_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put_ids("live", 1, 10)
    outcomes: list[RequestOutcome] = []
    v2 = version(world, "v2")

    def refuse(prepared: object) -> None:
        monkeypatch.undo()
        raise ValueError("something that was there is there no more")

    def work(script: UserScript) -> None:
        script.put(10)
        monkeypatch.setattr("airflow_provider_ckpt.spark.job_run.refuse_start_from_scratch", refuse)
        outcomes.append(upgrade(script, v2))
        script.put(20)

    with UserScript(world, work):
        run = world.run(counting(world))
    assert run.status == "STOPPED", run.cause
    assert outcomes[0].result.value == "failed", outcomes
    assert "could not begin: ValueError: something that was there is there no more" in outcomes[0].detail
    assert outcomes[0].detail.endswith("the job continues unchanged")
    check_counting(world, 30)
    assert {row["by"] for row in world.released()} == {"one"}
    assert final_counts(world) == expected_counts(30)


def test_a_job_without_a_version_that_can_start_is_not_running(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put_ids("live", 1, 10)
    v2 = version(world, "v2")

    def refuse(prepared: object) -> None:
        raise StorageTransientError(verb="read", uri="root", reason="out of reach")

    def work(script: UserScript) -> None:
        script.put(10)
        monkeypatch.setattr("airflow_provider_ckpt.spark.job_run.refuse_start_from_scratch", refuse)
        script.client.upgrade(v2)

    with pytest.raises(StorageTransientError), UserScript(world, work, end="nothing"):
        world.run(counting(world))
    monkeypatch.undo()
    state = world.state()
    (outcome,) = state.outcomes.values()
    assert (state.status, outcome.result.value) == ("RESTARTING", "failed")
    assert "could not begin" in outcome.detail
    assert "nor could the previous version resume" in outcome.detail
    with UserScript(world, lambda script: script.put(20)):
        again = world.run(counting(world))
    assert again.status == "STOPPED", again.cause
    check_counting(world, 30)


@pytest.mark.parametrize("verbs", [1, 2, 4, 7, 12])
def test_r21_a_driver_that_dies_during_an_upgrade_leaves_a_resumable_job(world: World, verbs: int) -> None:
    """The driver dies this number of storage verbs after the savepoint.

    That is before the claim, after it, or while the version is recorded.
    """
    world.put_ids("live", 2, 10)
    world.put_ids("past", 1, 5)
    v2 = with_more(world, "v2")
    fault = Fault()

    def work(script: UserScript) -> None:
        script.put(20)
        script.client.upgrade(v2)

    def on_line(line: Line) -> None:
        if "and resumes as" in line["message"]:
            fault.at = fault.verbs.count + verbs

    with pytest.raises(CkptError), UserScript(world, work, end="nothing"):
        world.run(counting(world), on_line, storage=FaultyStorage(world.storage, fault))
    assert fault.happened
    assert world.state().outcomes == {}, "no outcome reports the upgrade"

    def resumes(script: UserScript) -> None:
        script.put(30)
        wait_until(lambda: world.released_count("old") == 5, "the new sink")

    with UserScript(world, resumes):
        again = world.run(load_job(v2))
    assert again.status == "STOPPED", again.cause
    check_counting(world, 40)
    assert world.released_ids("old") == list(range(5))
    assert world.released_ids("copies") == [*range(30, 40)]


def test_a_leave_request_during_an_upgrade_is_carried_out(world: World) -> None:
    """The request is for the driver's process and names the only epoch that is known of it."""
    world.put_ids("live", 2, 10)
    v2 = with_more(world, "v2")
    client = JobClient(str(world.root), world.job_id)

    def work(script: UserScript) -> None:
        script.put(20)
        outcomes.append(upgrade(script, v2))

    def on_line(line: Line) -> None:
        if "and resumes as" in line["message"]:
            client.stop(epoch=1, exit_if_it_fails=True)

    outcomes: list[RequestOutcome] = []
    with UserScript(world, work, end="nothing"):
        run = world.run(counting(world), on_line)
    assert run.status == "STOPPED", run.cause
    assert outcomes[0].is_carried_out, outcomes
    assert client.is_asked_to_leave(2), "the request is visible in the new epoch"
    state = world.state()
    assert state.epoch == 2
    assert sorted(str(outcome) for outcome in state.outcomes.values())[0].startswith("completed: savepoint")
    check_counting(world, 30)


def test_a_driver_that_takes_over_during_an_upgrade_keeps_the_job(world: World) -> None:
    """Another driver claims the next epoch. This driver has the old one and must not claim above it."""
    world.put_ids("live", 1, 10)
    v2 = version(world, "v2")

    def work(script: UserScript) -> None:
        script.put(10)
        script.client.upgrade(v2)

    def on_line(line: Line) -> None:
        if "and resumes as" in line["message"]:
            Journal(world.storage, world.job_id).claim("another", Worker("elsewhere"), 1.0)

    with (
        pytest.raises(FencedError, match="epoch 2 is owned by attempt another"),
        UserScript(world, work, end="nothing"),
    ):
        world.run(counting(world), on_line)
    state = world.state()
    assert (state.epoch, state.attempt, state.driver_since, state.outcomes) == (2, "another", 0, {})
    with UserScript(world, lambda script: script.put(20)):
        again = world.run(counting(world))
    assert again.status == "STOPPED", again.cause
    check_counting(world, 30)
