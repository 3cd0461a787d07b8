"""Requests to change queries of a running job, sent from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ckpt.client.reconfiguration_preview import (
    AffectedVertex,
    Reconfiguration,
    RescaledSource,
    as_numbers,
)
from airflow_provider_ckpt.errors import RequestRefusedError, RequestUnansweredError
from airflow_provider_ckpt.job.errors import BadOptionError, NotReconfigurableError
from airflow_provider_ckpt.jobmaster.applied_changes import unapplied_changes
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import pending_requests
from airflow_provider_ckpt.journal.worker_process import identify
from airflow_provider_ckpt.model.definition import SourceDefinition
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.job_request import ReconfigureRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from tests.client.running_job import DEFINITION, GRAPH, client

SIXTEEN = {"daily": VertexSettings(state_partitions=16)}


def sixteen() -> Reconfiguration:
    return Reconfiguration().assign_workload("daily", state_partitions=16)


def test_a_request_reaches_the_driver(driver: Journal, tmp_path: Path) -> None:
    change = sixteen().assign_workload("live", max_bytes_per_batch="2m", trigger_interval="0s")
    change.assign_execution_logic("clean", "v2.py:job").assign_resources("clean", pool_weight=2)
    asked = client(tmp_path).reconfigure(change)
    (pending,) = pending_requests(open_storage(str(tmp_path)), "orders", 1, ())
    assert pending == asked
    assert isinstance(pending, ReconfigureRequest)
    assert pending.changes == change.changes
    assert pending.changes == {
        **SIXTEEN,
        "live": VertexSettings(max_bytes_per_batch=2 << 20, trigger_interval=0.0),
        "clean": VertexSettings(pool_weight=2, logic={"clean": "v2.py:job"}),
    }


@pytest.mark.parametrize(
    ("tell", "why"),
    [
        (lambda change: change.assign_workload("x", state_partitions=2), "x is no operator of the job"),
        (lambda change: change.assign_workload("lake", trigger_interval=1), "lake is a sink"),
        (
            lambda change: change.assign_workload("clean", state_partitions=2),
            "it keeps no state that could be repartitioned",
        ),
        (lambda change: change, "it changes nothing"),
    ],
    ids=["unknown", "sink", "no state", "nothing"],
)
def test_an_impossible_request_is_refused_before_it_is_written(
    driver: Journal, tmp_path: Path, tell: Callable[[Reconfiguration], Reconfiguration], why: str
) -> None:
    with pytest.raises(NotReconfigurableError, match=why):
        client(tmp_path).reconfigure(tell(Reconfiguration()))
    assert pending_requests(open_storage(str(tmp_path)), "orders", 1, ()) == []


@pytest.mark.parametrize(
    ("tell", "why"),
    [
        (lambda change: change.assign_workload("a", parallelism=0), "parallelism is a whole number above 0"),
        (lambda change: change.rescale("a"), "give one of parallelism .* and state_partitions"),
        (lambda change: change.rescale("a", parallelism=2, state_partitions=2), "give one"),
        (lambda change: change.rebalance({"a": 0}), "pool_weight is a whole number above 0"),
        (lambda change: change.change_of_logic("v2.py:job"), "name the operators"),
        (
            lambda change: change.placement("a", "host-1"),
            "a driver of its own: run the job with workers, or as a task group",
        ),
        (lambda change: change.assign_resources("a", executors=0), "executors is a whole number above 0"),
        (lambda change: change.assign_resources("a", executor_memory="4g"), "executor_memory cannot be changed"),
        (
            lambda change: change.assign_workload("a", colour="red"),
            "colour cannot be changed .* there is: max_bytes",
        ),
        (lambda change: change.assign_workload("a"), "no change is given"),
        (lambda change: change.assign_workload("a", state_partitions=0), "state_partitions is a whole number above 0"),
        (
            lambda change: change.assign_workload("a", state_partitions=True),
            "state_partitions is a whole number above 0",
        ),
        (lambda change: change.assign_resources("a", pool_weight=1.5), "pool_weight is a whole number above 0"),
        (lambda change: change.assign_workload("a", max_bytes_per_batch=1, max_files_per_batch=1), "not both"),
        (
            lambda change: change.assign_workload("a", max_files_per_batch=2**31),
            "max_files_per_batch is 2147483647 at the most",
        ),
        (
            lambda change: change.assign_workload("a", state_partitions=2**31),
            "state_partitions is 2147483647 at the most",
        ),
        (lambda change: change.assign_resources("a", pool_weight=2**31), "pool_weight is 2147483647 at the most"),
        (lambda change: change.assign_execution_logic("a", "v2.py"), "is no reference of a job"),
    ],
)
def test_an_invalid_setting_is_refused_when_it_is_assigned(
    tell: Callable[[Reconfiguration], Reconfiguration], why: str
) -> None:
    with pytest.raises(NotReconfigurableError, match=why):
        tell(Reconfiguration())


def test_an_invalid_size_or_duration_is_named() -> None:
    with pytest.raises(BadOptionError, match="max_bytes_per_batch"):
        Reconfiguration().assign_workload("a", max_bytes_per_batch="much")
    with pytest.raises(BadOptionError, match="trigger_interval"):
        Reconfiguration().assign_workload("a", trigger_interval="soon")


def test_a_preview_names_the_affected_vertices_without_a_request(driver: Journal, tmp_path: Path) -> None:
    driver.write(ev.Reconfigured(1, {"daily": VertexSettings(trigger_interval=5.0)}, 2.0))
    driver.flush()
    preview = client(tmp_path).preview(sixteen().assign_workload("daily", trigger_interval="2s"))
    after = {"trigger_interval": 2.0, "state_partitions": 16}
    assert preview.affected == (AffectedVertex("daily", {"trigger_interval": 5.0}, after, (8, 16)),)
    assert preview.unaffected == ("clean",)
    assert pending_requests(open_storage(str(tmp_path)), "orders", 1, ()) == []


def test_a_preview_of_an_impossible_change_is_refused(driver: Journal, tmp_path: Path) -> None:
    driver.write(ev.PlanRecorded(GRAPH, {}, 2.0, replace(DEFINITION, mode="batch")))
    driver.flush()
    for ask in (client(tmp_path).preview, client(tmp_path).reconfigure):
        with pytest.raises(NotReconfigurableError, match="daily: the job is in batch mode"):
            ask(sixteen())
    driver.write(ev.PlanRecorded(GRAPH, {}, 3.0, DEFINITION))
    driver.write(ev.StatusChanged(JobStatus.FINISHED, 3.0))
    for ask in (client(tmp_path).preview, client(tmp_path).reconfigure):
        with pytest.raises(RequestRefusedError, match="FINISHED"):
            ask(sixteen())
    assert pending_requests(open_storage(str(tmp_path)), "orders", 1, ()) == []


@pytest.mark.parametrize(
    ("outcome", "served"),
    [
        ("completed: daily was paused for 1.5 s", True),
        ("failed: it has other columns", False),
    ],
)
def test_the_answer_comes_while_the_job_runs(driver: Journal, tmp_path: Path, outcome: str, served: bool) -> None:
    job = client(tmp_path)
    asked = job.reconfigure(sixteen())
    driver.write(ev.RequestAnswered(asked.name, "reconfigure", RequestOutcome.parse("accepted"), 2.0))
    driver.write(ev.RequestAnswered(asked.name, "reconfigure", RequestOutcome.parse(outcome), 3.0))
    driver.flush()
    answer = job.answer(asked, 5.0)
    assert (answer.is_served, str(answer.outcome), answer.state.status) == (served, outcome, JobStatus.RUNNING)


def test_a_change_of_a_driver_lost_after_the_decision_is_served(driver: Journal, tmp_path: Path) -> None:
    job = client(tmp_path)
    asked = job.reconfigure(sixteen())
    driver.write(ev.Reconfigured(1, SIXTEEN, 2.0))
    Journal(open_storage(str(tmp_path)), "orders").claim("next", identify(), 3.0)
    assert job.answer(asked, 5.0).is_served
    assert job.runs_with(sixteen())


def test_a_change_of_a_driver_lost_before_the_decision_is_not_served(driver: Journal, tmp_path: Path) -> None:
    job = client(tmp_path)
    asked = job.reconfigure(sixteen())
    Journal(open_storage(str(tmp_path)), "orders").claim("next", identify(), 3.0)
    with pytest.raises(RequestUnansweredError, match="asked to reconfigure"):
        job.answer(asked, 5.0)
    assert not job.runs_with(sixteen())


def test_a_lost_driver_leaves_a_reassigned_file_unanswered(driver: Journal, tmp_path: Path) -> None:
    """The file was edited and assigned again, so the job may still run the previous version."""
    runs = {"daily": VertexSettings(logic={"daily": "v2.py:job"}, digests={"daily": "before"})}
    driver.write(ev.Reconfigured(1, runs, 2.0))
    driver.flush()
    job = client(tmp_path)
    asked = job.reconfigure(Reconfiguration().assign_execution_logic("daily", "v2.py:job"))
    declared = job.reconfigure(Reconfiguration().assign_execution_logic("clean", None))
    Journal(open_storage(str(tmp_path)), "orders").claim("next", identify(), 3.0)
    with pytest.raises(RequestUnansweredError, match="asked to reconfigure"):
        job.answer(asked, 5.0)
    assert job.answer(declared, 5.0).is_served


def test_a_preview_of_a_job_without_a_plan_is_refused(tmp_path: Path) -> None:
    Journal(open_root(open_storage(str(tmp_path))), "orders").claim("t", identify(), 1.0)
    with pytest.raises(NotReconfigurableError, match="no run of the job has planned it"):
        client(tmp_path).preview(sixteen())


def test_a_late_answer_is_an_error(driver: Journal, tmp_path: Path) -> None:
    job = client(tmp_path)
    with pytest.raises(RequestUnansweredError, match="has not applied request"):
        job.answer(job.reconfigure(sixteen()), 0.0)


def test_a_job_without_a_driver_refuses_the_request(driver: Journal, tmp_path: Path) -> None:
    driver.write(ev.StatusChanged(JobStatus.STOPPED, 2.0))
    with pytest.raises(RequestRefusedError, match="cannot be asked to reconfigure: its status is STOPPED"):
        client(tmp_path).reconfigure(sixteen())


# ---- sources with splits, and ready-made changes


SPLITS = JobGraph(
    (
        JobVertex("parts", ("parts",), ("parts",), ("parts",), (), bounded=True, parallelism=2, splits=True),
        JobVertex("daily", ("daily",), (), (), ("lake",), bounded=True),
        JobVertex("clean", ("live", "clean"), ("live",), (), (), bounded=False),
    ),
    (JobEdge("parts__daily", "parts", "daily", "daily"),),
)


def test_a_preview_names_paused_vertices_and_rescaled_sources(driver: Journal, tmp_path: Path) -> None:
    definition = replace(DEFINITION, sources={"parts": SourceDefinition(True, parallelism=2)})
    driver.write(ev.PlanRecorded(SPLITS, {}, 2.0, definition))
    driver.flush()
    job = client(tmp_path)
    more = Reconfiguration().assign_resources("clean", pool_weight=2).rescale("parts", parallelism=4)
    preview = job.preview(more)
    assert [vertex.vertex for vertex in preview.affected] == ["clean"]
    assert preview.rescaled == (RescaledSource("parts", 2, 4, ("daily",)),)
    assert preview.unaffected == ()
    fewer = job.preview(Reconfiguration().rescale("parts", parallelism=1))
    assert (fewer.rescaled[0].consumers, fewer.unaffected) == ((), ("daily", "clean"))


def test_a_change_applies_only_when_all_its_parts_are_decided(driver: Journal, tmp_path: Path) -> None:
    driver.write(ev.PlanRecorded(SPLITS, {}, 2.0, DEFINITION))
    job, change = client(tmp_path), Reconfiguration().rescale("parts", parallelism=3)
    change.assign_resources("clean", pool_weight=2)
    graph = ev.GraphChange(SPLITS.rescaled({"parts": 3}), {"parts": 3})
    driver.write(ev.Reconfigured(1, {}, 3.0, graph))
    driver.flush()
    assert not job.runs_with(change)
    driver.write(ev.Reconfigured(2, {"clean": VertexSettings(pool_weight=2)}, 4.0))
    driver.flush()
    assert job.runs_with(change)


def test_shortcut_changes_equal_their_parts() -> None:
    ready = Reconfiguration().rescale("a", state_partitions=4).rebalance({"a": 3, "b": 1})
    ready.change_of_logic("v2.py:job", "a", "b").rescale("parts", parallelism=2)
    plain = Reconfiguration().assign_workload("a", state_partitions=4).assign_workload("parts", parallelism=2)
    plain.assign_resources("a", pool_weight=3).assign_resources("b", pool_weight=1)
    plain.assign_execution_logic("a", "v2.py:job").assign_execution_logic("b", "v2.py:job")
    assert ready.changes == plain.changes


def test_limits_beyond_what_spark_can_count_are_refused() -> None:
    """Spark would reject such a value at each start of the query, so the job would end, and each later run, too."""
    largest = Reconfiguration().assign_workload("a", max_bytes_per_batch=2**63 - 1, trigger_interval="36525d")
    assert largest.changes["a"].max_bytes_per_batch == 2**63 - 1
    with pytest.raises(BadOptionError, match="max_bytes_per_batch: 9223372036854775808 is no size"):
        Reconfiguration().assign_workload("a", max_bytes_per_batch=2**63)
    with pytest.raises(BadOptionError, match="trigger_interval: '36526d' is no duration"):
        Reconfiguration().assign_workload("a", trigger_interval="36526d")


def test_a_text_with_too_many_digits_is_no_number() -> None:
    assert as_numbers({"pool_weight": "9" * 5000, "parallelism": " 8 "}) == {
        "pool_weight": "9" * 5000,
        "parallelism": 8,
    }


def test_unapplied_changes_leave_out_numbers_that_already_apply(driver: Journal, tmp_path: Path) -> None:
    definition = replace(DEFINITION, sources={"parts": SourceDefinition(True, parallelism=2)})
    driver.write(ev.PlanRecorded(SPLITS, {}, 2.0, definition))
    driver.flush()
    state, weight = client(tmp_path).state(), VertexSettings(pool_weight=2)
    both = {"parts": VertexSettings(parallelism=2), "clean": weight}
    assert unapplied_changes(state, both) == {"clean": weight}
    assert unapplied_changes(state, {"parts": VertexSettings(parallelism=2)}) == {}
    assert unapplied_changes(state, {"parts": VertexSettings(parallelism=3)}) == {
        "parts": VertexSettings(parallelism=3)
    }
    driver.write(ev.Reconfigured(1, {}, 3.0, ev.GraphChange(SPLITS.rescaled({"parts": 3}), {"parts": 3})))
    driver.flush()
    assert unapplied_changes(client(tmp_path).state(), both) == both
