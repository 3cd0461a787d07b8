"""Functions for the next run of a job that is not running."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from airflow_provider_ckpt.errors import RequestRefusedError
from airflow_provider_ckpt.job.errors import NotReconfigurableError
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.errors import FencedError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.worker_process import identify
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from tests.client.ended_job import GONE
from tests.client.running_job import GRAPH, client

BAD = VertexSettings(pool_weight=2, logic={"clean": "bad.py:job", "live": "v1.py:job"}, digests={"clean": "d1"})


def good() -> Reconfiguration:
    return Reconfiguration().assign_execution_logic("clean", "good.py:job")


def ended(driver: Journal, status: JobStatus = JobStatus.FAILED) -> Journal:
    driver.write(ev.Reconfigured(4, {"clean": BAD}, 2.0))
    driver.write(ev.StatusChanged(status, 3.0, "bad row"))
    return driver


def test_the_next_run_gets_the_function_and_the_earlier_changes(driver: Journal, tmp_path: Path) -> None:
    ended(driver)
    state = client(tmp_path).assign_for_next_run(good())
    logic = {"clean": "good.py:job", "live": "v1.py:job"}
    assert state.settings == {"clean": replace(BAD, logic=logic, digests={})}
    assert (state.reconfigured, state.status, state.cause) == (5, JobStatus.FAILED, "bad row")
    assert client(tmp_path).state() == state


def test_the_declared_function_can_be_restored(driver: Journal, tmp_path: Path) -> None:
    ended(driver)
    both = Reconfiguration().assign_execution_logic("clean", "declared").assign_execution_logic("live", None)
    state = client(tmp_path).assign_for_next_run(both)
    assert state.settings == {"clean": VertexSettings(pool_weight=2)}
    assert client(tmp_path).assign_for_next_run(both).reconfigured == state.reconfigured, "nothing is changed by it"


def test_a_job_without_a_plan_refuses_changes(tmp_path: Path) -> None:
    """Its next run starts with the functions that its file declares, so the change would be lost silently."""
    journal = Journal(open_root(open_storage(str(tmp_path))), "orders")
    journal.claim("t1", GONE, 1.0)
    journal.write(ev.JobCreated("orders", GRAPH, "streaming", SubmittedOptions(), 1.0))
    journal.write(ev.StatusChanged(JobStatus.FAILED, 3.0, "no such table"))
    epoch = client(tmp_path).state().epoch
    with pytest.raises(RequestRefusedError, match="no run of it has recorded a plan"):
        client(tmp_path).assign_for_next_run(good())
    assert client(tmp_path).state().epoch == epoch


def test_a_change_for_the_next_run_is_refused_while_the_driver_lives(driver: Journal, tmp_path: Path) -> None:
    epoch = client(tmp_path).state().epoch
    for gone in (False, True):
        with pytest.raises(RequestRefusedError, match=r"is RUNNING, and its driver lives\. Ask the driver"):
            client(tmp_path).assign_for_next_run(good(), driver_is_gone=gone)
    assert client(tmp_path).state().epoch == epoch


def test_driver_is_gone_overrides_a_driver_on_another_host(driver: Journal, tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    elsewhere = Journal(storage, "orders")
    elsewhere.claim("t2", replace(identify(), host="elsewhere"), 2.0)
    elsewhere.write(ev.StatusChanged(JobStatus.RUNNING, 2.0))
    with pytest.raises(RequestRefusedError, match="on elsewhere cannot be seen from here"):
        client(tmp_path).assign_for_next_run(good())
    state = client(tmp_path).assign_for_next_run(good(), driver_is_gone=True)
    assert state.status is JobStatus.RESTARTING
    assert state.settings["clean"].logic == {"clean": "good.py:job"}
    with pytest.raises(FencedError):
        elsewhere.write(ev.Reconfigured(9, {}, 4.0))


def test_a_change_for_the_next_run_is_refused_while_workers_may_run(driver: Journal, tmp_path: Path) -> None:
    planner = Journal(open_storage(str(tmp_path)), "orders")
    planner.claim("t2", GONE, 2.0)
    planner.write(ev.DeploymentPrepared(2, 2.0))
    with pytest.raises(RequestRefusedError, match="was prepared for workers in epoch 2"):
        client(tmp_path).assign_for_next_run(good())
    assert client(tmp_path).assign_for_next_run(good(), driver_is_gone=True).reconfigured == 1


@pytest.mark.parametrize(
    ("status", "change", "why"),
    [
        (JobStatus.FINISHED, good(), "it is FINISHED, and does not run again"),
        (
            JobStatus.STOPPED,
            Reconfiguration().assign_workload("daily", trigger_interval=3),
            "trigger_interval is tried on queries that run.* taken back: trigger_interval=declared",
        ),
        (
            JobStatus.STOPPED,
            Reconfiguration().assign_workload("clean", state_partitions=3),
            "clean keeps no state that could be repartitioned",
        ),
        (JobStatus.STOPPED, Reconfiguration().take_back("nobody", "executors"), "nobody is no operator"),
        (JobStatus.STOPPED, Reconfiguration().assign_execution_logic("nobody", None), "nobody is no operator"),
        (JobStatus.STOPPED, Reconfiguration(), "it changes nothing"),
    ],
)
def test_an_invalid_change_for_the_next_run_is_refused(
    driver: Journal, tmp_path: Path, status: JobStatus, change: Reconfiguration, why: str
) -> None:
    ended(driver, status)
    epoch = client(tmp_path).state().epoch
    with pytest.raises(RequestRefusedError, match=why):
        client(tmp_path).assign_for_next_run(change)
    assert client(tmp_path).state().epoch == epoch, "nothing is written"


def test_undoing_settings_keeps_the_others(driver: Journal, tmp_path: Path) -> None:
    """A bad value ends the job, and each later run, before its driver reads a request."""
    bad = VertexSettings(max_files_per_batch=3, trigger_interval=5.0, pool_weight=2, executors=900)
    driver.write(ev.Reconfigured(4, {"clean": bad, "daily": VertexSettings(pool_weight=3)}, 2.0))
    driver.write(ev.StatusChanged(JobStatus.FAILED, 3.0, "out of memory"))
    change = (
        Reconfiguration().take_back("live", "max_files_per_batch", "trigger_interval").take_back("clean", "executors")
    )
    state = client(tmp_path).assign_for_next_run(change)
    assert state.settings == {"clean": VertexSettings(pool_weight=2), "daily": VertexSettings(pool_weight=3)}
    assert (state.reconfigured, state.status, state.cause) == (5, JobStatus.FAILED, "out of memory")
    state = client(tmp_path).assign_for_next_run(Reconfiguration().take_back("daily", "pool_weight"))
    assert state.settings == {"clean": VertexSettings(pool_weight=2)}


def test_a_setting_that_is_no_longer_valid_can_be_undone(driver: Journal, tmp_path: Path) -> None:
    driver.write(ev.Reconfigured(4, {"clean": VertexSettings(max_files_per_batch=0)}, 2.0))
    driver.write(ev.StatusChanged(JobStatus.FAILED, 3.0, "no batch has room for a file"))
    state = client(tmp_path).assign_for_next_run(Reconfiguration().take_back("clean", "max_files_per_batch"))
    assert state.settings == {}


def test_one_change_can_set_functions_and_settings(driver: Journal, tmp_path: Path) -> None:
    ended(driver)
    state = client(tmp_path).assign_for_next_run(good().take_back("clean", "pool_weight"))
    assert state.settings == {"clean": VertexSettings(logic={"clean": "good.py:job", "live": "v1.py:job"})}


def test_the_number_of_state_partitions_can_be_changed_for_the_next_run(driver: Journal, tmp_path: Path) -> None:
    """A number of parts that the machine has no memory for ends every run."""
    ended(driver)
    state = client(tmp_path).assign_for_next_run(Reconfiguration().assign_workload("daily", state_partitions=3))
    assert state.settings["daily"] == VertexSettings(state_partitions=3)
    assert state.plan is not None
    assert state.plan.definition is not None
    assert state.plan.definition.vertices["daily"].shuffle_partitions == 3


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("state_partitions", "give the new number of parts"),
        ("parallelism", "until the job declares another number"),
        ("logic", "there is: max_bytes_per_batch, max_files_per_batch, trigger_interval, executors, pool_weight"),
        ("colour", "is no setting that can be taken back"),
    ],
)
def test_an_error_says_why_a_setting_cannot_be_undone(name: str, why: str) -> None:
    with pytest.raises(NotReconfigurableError, match=why):
        Reconfiguration().take_back("clean", name)


def test_a_running_job_refuses_to_undo_a_setting(driver: Journal, tmp_path: Path) -> None:
    change = Reconfiguration().assign_resources("clean", pool_weight=2).take_back("clean", "trigger_interval")
    for ask in (client(tmp_path).reconfigure, client(tmp_path).preview):
        with pytest.raises(NotReconfigurableError, match="trigger_interval can be taken back at the next run only"):
            ask(change)
