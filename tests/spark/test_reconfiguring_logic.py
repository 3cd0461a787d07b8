"""New functions for operators of a running job: the file they come from, the moment it is read, and later effects."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from airflow_provider_ckpt.job.errors import UnfitLogicError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.loading.loading import load_job
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from tests.spark.counting_job import UserScript, check_counting, counting, counting_version
from tests.spark.harness import World
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

FAILS = 'return rows.withColumn("by", F.raise_error(F.lit("bad row")).cast("string"))'
MARKED = 'return rows.withColumn("by", F.lit("one"))'


def with_helper(
    world: World, folder: str, name: str, mark: str = 'F.udf(marks_of_this_test.mark, "string")("id")'
) -> str:
    """Write a version whose rows are marked by a Python function of a module next to it.

    Every version has a module of this name. Python workers import it, too.
    """
    place = Path(world.path("versions")) / folder
    place.mkdir(exist_ok=True)
    (place / "marks_of_this_test.py").write_text(f"NAME = {name!r}\n\ndef mark(i):\n    return NAME\n")
    marked = f'return rows.withColumn("by", {mark})'
    path = Path(counting_version(world, f"{folder}/v", marked=marked).removesuffix(":job"))
    path.write_text("import marks_of_this_test\n" + path.read_text())
    return f"{path}:job"


def assign(reference: str | None) -> Reconfiguration:
    return Reconfiguration().assign_execution_logic("marked", reference)


def refuses_what_was_edited(world: World) -> None:
    """Check that a run is refused, with advice, because the assigned file was edited after its trial."""
    epoch = world.state().epoch
    with pytest.raises(UnfitLogicError, match="has changed since marked was given it") as refused:
        world.run(counting(world))
    for way in ("Restore the file as it was", "marked.logic=declared", f"marked.logic={world.base}/versions/"):
        assert way in str(refused.value)
    assert world.state().epoch == epoch, "nothing is written"


def marks_of_rows(world: World) -> list[str]:
    """Return the marks of the rows, one for each ten rows."""
    marks: dict[int, set[str]] = {}
    for row in world.released():
        marks.setdefault(row["id"] // 10, set()).add(row["by"])
    assert all(len(names) == 1 for names in marks.values())
    return [names.pop() for _, names in sorted(marks.items())]


def test_each_version_uses_its_own_helper_module(world: World) -> None:
    world.put_ids("live", 1, 10)
    outcomes: list[RequestOutcome] = []

    def work(script: UserScript) -> None:
        script.put(10)
        outcomes.append(script.change(assign(with_helper(world, "a", "first"))))
        script.put(20)
        outcomes.append(script.change(assign(with_helper(world, "b", "second"))))
        script.put(30)
        again = with_helper(world, "b", "mended")
        script.put(40)
        outcomes.append(script.change(assign(again)))
        script.put(50)
        outcomes.append(script.change(assign(again)))

    with UserScript(world, work):
        run = world.run(counting(world))
    assert run.status == "STOPPED", run.cause
    assert [outcome.result.value for outcome in outcomes] == ["completed"] * 4, outcomes
    assert "nothing had to be changed: the code read for marked already runs" in outcomes[-1].detail
    check_counting(world, 60)
    assert marks_of_rows(world) == ["one", "one", "first", "second", "second", "mended"]
    assert "marks_of_this_test" not in sys.modules


def test_later_attempts_of_a_run_keep_the_assigned_code(world: World) -> None:
    world.put_ids("live", 1, 10)

    def work(script: UserScript) -> None:
        script.put(10)
        script.change(assign(with_helper(world, "a", "first")))
        script.put(20)
        with_helper(world, "a", "mended")
        script.change(Reconfiguration().assign_workload("counts", state_partitions=3))
        script.change(Reconfiguration().assign_workload("marked", trigger_interval="10ms"))
        script.put(30)

    with UserScript(world, work):
        run = world.run(counting(world))
    assert run.status == "STOPPED", run.cause
    assert marks_of_rows(world) == ["one", "one", "first", "first"]
    assert run.of("warning") == []

    refuses_what_was_edited(world)
    JobClient(str(world.root), world.job_id).assign_for_next_run(assign(f"{world.base}/versions/a/v.py:job"))
    with UserScript(world, lambda script: script.put(40)):
        run = world.run(counting(world))
    assert run.status == "STOPPED", run.cause
    check_counting(world, 50)
    assert marks_of_rows(world)[-1] == "mended"


def test_a_file_reverted_to_the_assigned_code_can_be_assigned_again(world: World) -> None:
    world.put_ids("live", 1, 10)
    assigned, edited = 'return rows.withColumn("by", F.lit("two"))', 'return rows.withColumn("by", F.lit("three"))'
    outcomes: list[RequestOutcome] = []

    def first(script: UserScript) -> None:
        script.put(10)
        outcomes.append(script.change(assign(counting_version(world, "v", marked=assigned))))
        script.put(20)

    def second(script: UserScript) -> None:
        script.put(30)
        outcomes.append(script.change(assign(counting_version(world, "v", marked=assigned))))
        script.put(40)

    for work in (first, second):
        with UserScript(world, work):
            run = world.run(counting(world))
        assert run.status == "STOPPED", run.cause
        again = assign(counting_version(world, "v", marked=edited))
        JobClient(str(world.root), world.job_id).assign_for_next_run(again)
    assert all(outcome.is_carried_out for outcome in outcomes), outcomes
    assert marks_of_rows(world) == ["one", "one", "two", "three", "two"]


def test_a_failing_function_can_be_reset_while_the_job_is_stopped(world: World) -> None:
    world.put_ids("live", 1, 10)
    bad = counting_version(world, "bad", marked=FAILS)

    def work(script: UserScript) -> None:
        script.put(10)
        script.change(assign(bad))
        world.put_ids("live", 1, 10, 20)

    with UserScript(world, work, end="nothing"):
        run = world.run(counting(world), restart_attempts=1, restart_delay=0.1)
    assert run.status == "RESTARTING"
    client = JobClient(str(world.root), world.job_id)
    state = client.assign_for_next_run(assign(None))
    assert (state.settings, state.reconfigured, state.status) == ({}, 2, "RESTARTING")
    with UserScript(world, lambda script: script.put(30)):
        run = world.run(counting(world))
    assert run.status == "STOPPED", run.cause
    client.assign_for_next_run(assign(counting_version(world, "v2")))
    with UserScript(world, lambda script: script.put(40)):
        run = world.run(counting(world))
    assert run.status == "STOPPED", run.cause
    check_counting(world, 50)
    assert marks_of_rows(world) == ["one", "one", "one", "one", "two"]
    counting_version(world, "v2", marked='return rows.withColumn("by", F.lit("three"))')
    refuses_what_was_edited(world)


def test_the_function_of_the_job_can_be_restored(world: World) -> None:
    world.put_ids("live", 1, 10)
    outcomes: list[RequestOutcome] = []

    def first(script: UserScript) -> None:
        script.put(10)
        outcomes.append(script.change(assign(counting_version(world, "v2"))))
        script.put(20)

    def second(script: UserScript) -> None:
        script.put(30)
        outcomes.append(script.change(assign(None)))
        script.put(40)

    for work in (first, second):
        with UserScript(world, work):
            run = world.run(counting(world))
        assert run.status == "STOPPED", run.cause
    assert [outcome.result.value for outcome in outcomes] == ["completed"] * 2, outcomes
    check_counting(world, 50)
    assert marks_of_rows(world) == ["one", "one", "two", "two", "one"]
    assert world.state().settings == {}


def test_the_jobs_own_file_can_be_assigned(world: World) -> None:
    """The job's own file is assigned, and assigned again after an edit.

    Meanwhile the job runs with the file as it was loaded.
    """
    world.put_ids("live", 1, 10)
    literal = "F.lit(marks_of_this_test.NAME)"  # the executors import the helpers of a job's own file themselves
    own = with_helper(world, "own", "own", literal)
    world.reference, job = own, _own_job(world, own)
    outcomes: list[RequestOutcome] = []

    def work(script: UserScript) -> None:
        script.put(10)
        outcomes.append(script.change(assign(counting_version(world, "v2"))))
        script.put(20)
        outcomes.append(script.change(assign(own)))
        script.put(30)
        outcomes.append(script.change(assign(with_helper(world, "own", "mended", literal))))
        script.put(40)

    with UserScript(world, work):
        run = world.run(job)
    assert run.status == "STOPPED", run.cause
    assert [outcome.result.value for outcome in outcomes] == ["completed"] * 3, outcomes
    check_counting(world, 50)
    assert marks_of_rows(world) == ["own", "own", "two", "own", "mended"]

    with_helper(world, "own", "edited", literal)  # as users edit a job's file between two runs
    with UserScript(world, lambda script: script.put(50)):
        run = world.run(_own_job(world, own))
    assert run.status == "STOPPED", run.cause
    assert any("is not what it was when it was assigned" in line["message"] for line in run.of("warning"))
    assert marks_of_rows(world)[-1] == "edited"


def _own_job(world: World, reference: str) -> Job:
    job = load_job(reference)
    job.sink("out", job.operators["marked"], _sink(world, "out"))
    job.sink("counted", job.operators["counts"], _sink(world, "counted"))
    return job


def _sink(world: World, name: str) -> Any:
    from airflow_provider_ckpt import FileSink

    return FileSink(world.path(name))


def test_a_version_reads_the_parameters_of_the_run(world: World) -> None:
    world.put_ids("live", 1, 10)
    job = counting(world)
    outcomes: list[RequestOutcome] = []
    reference = counting_version(world, "v2", marked='return rows.withColumn("by", F.lit(day))')
    path = Path(reference.removesuffix(":job"))
    text = path.read_text()
    missing = path.with_name("v3.py")
    path.write_text(text.replace('Job("counting")\n', 'Job("counting")\nday = job.param("day")\n'))
    missing.write_text(text.replace('Job("counting")\n', 'Job("counting")\nday = job.param("night")\n'))

    def work(script: UserScript) -> None:
        script.put(10)
        outcomes.append(script.change(assign(f"{missing}:job")))
        outcomes.append(script.change(assign(reference)))
        script.put(20)

    with UserScript(world, work):
        run = world.run(job, params={"day": "friday"})
    assert run.status == "STOPPED", run.cause
    assert [outcome.result.value for outcome in outcomes] == ["failed", "completed"], outcomes
    assert "night" in outcomes[0].detail
    assert marks_of_rows(world) == ["one", "one", "friday"]


@pytest.mark.parametrize("ends", ["completed", "failed"])
def test_a_change_calls_the_functions_of_a_query_once(world: World, ends: str) -> None:
    """The pause does not repeat a call that was made before it."""
    world.put_ids("live", 1, 10)
    calls = Path(world.path("calls")) / "made"
    count = f'open({str(calls)!r}, "a").write("x")'
    fails = "" if ends == "completed" else "; raise ValueError('no')"
    reference = counting_version(world, "v2", marked=f'{count}{fails}; return rows.withColumn("by", F.lit("two"))')
    outcomes: list[RequestOutcome] = []

    def work(script: UserScript) -> None:
        script.put(10)
        outcomes.append(script.change(assign(reference)))
        script.put(20)

    with UserScript(world, work):
        run = world.run(counting(world))
    assert run.status == "STOPPED", run.cause
    assert outcomes[0].result.value == ends
    assert calls.read_text() == "x"
    check_counting(world, 30)


HOLD = """
def hold(i, gate={gate!r}):
    import os, time
    while i == 25 and not os.path.exists(gate):
        time.sleep(0.05)
    return "held"
"""


def test_a_change_waits_for_a_batch_until_the_checkpoint_timeout(world: World) -> None:
    """The other queries run unchanged. This query also runs unchanged when its batch ends."""
    gate = Path(world.path("gate")) / "open"
    marked = 'return rows.withColumn("by", F.udf(hold, "string")("id"))'
    path = Path(counting_version(world, "v2", marked=marked).removesuffix(":job"))
    path.write_text(path.read_text() + HOLD.format(gate=str(gate)))
    world.put_ids("live", 1, 10)
    outcomes: list[RequestOutcome] = []

    def work(script: UserScript) -> None:
        script.put(10)
        outcomes.append(script.change(assign(f"{path}:job")))
        world.put_ids("live", 1, 10, 20)
        try:
            wait_until(lambda: _is_in_batch(world), "a batch that does not end")
            changes = Reconfiguration().assign_workload("marked", trigger_interval="10ms")
            changes.assign_execution_logic("live", _reading_less(world))
            outcomes.append(script.change(changes))
        finally:
            gate.touch()
        script.put(30)
        outcomes.append(script.change(Reconfiguration().assign_workload("marked", trigger_interval="10ms")))

    with UserScript(world, work):
        run = world.run(counting(world), checkpoint_timeout=8)
    assert run.status == "STOPPED", run.cause
    assert [outcome.result.value for outcome in outcomes] == ["completed", "failed", "completed"], outcomes
    assert "marked/0 did not pause within 8 s" in outcomes[1].detail, outcomes[1]
    check_counting(world, 40)


def _reading_less(world: World) -> str:
    path = Path(counting_version(world, "less").removesuffix(":job"))
    path.write_text(path.read_text().replace('/live")', '/live").where("id < 30")'))
    return f"{path}:job"


def _is_in_batch(world: World) -> bool:
    """Return True if a batch of the query is planned and not committed."""
    spark = Path(world.root) / "job" / "vertices" / "marked" / "0" / "spark"
    for folder in spark.glob("*"):
        planned, committed = ({path.name for path in (folder / kind).glob("[0-9]*")} for kind in ("offsets", "commits"))
        if planned - committed:
            return True
    return False


def test_a_stateful_function_is_tried_only_after_a_committed_batch(world: World) -> None:
    outcomes: list[RequestOutcome] = []

    def work(script: UserScript) -> None:
        change = Reconfiguration().assign_execution_logic("counts", counting_version(world, "v2"))
        outcomes.append(script.change(change))
        script.put(0)
        outcomes.append(script.change(change))
        script.put(10)

    world.path("live")
    with UserScript(world, work):
        run = world.run(counting(world))
    assert run.status == "STOPPED", run.cause
    assert "it has committed no micro-batch" in outcomes[0].detail
    assert outcomes[1].result.value == "completed", outcomes[1]
    check_counting(world, 20)
