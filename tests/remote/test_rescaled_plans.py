"""Hosts of the subtasks that a rescale added, in the next plan of the job (R21)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ckpt.jobmaster.recorded_plan import record_plan
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.journal.events import GraphChange, Reconfigured
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.definition import JobDefinition, SourceDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root

SOURCE = SourceDefinition(True, paths=("/in/a",), parallelism=1)
HOSTS = {SubtaskId("src/1"): SubtaskId("src/0")}
GRAPH = JobGraph((JobVertex("src", ("src",), ("src",), ("src",), (), bounded=True, splits=True),), ())


def of(source: SourceDefinition) -> JobDefinition:
    return JobDefinition("streaming", {"src": source}, {}, {})


@pytest.fixture
def journal(tmp_path: Path) -> OwnedJournal:
    """The journal of a job with workers, in the middle of a rescale from one to two subtasks."""
    made = Journal(open_root(open_storage(tmp_path)), "job")
    made.claim("a", Worker(), 1.0)
    owned = OwnedJournal(made)
    record_plan(owned, "job", GRAPH, of(SOURCE), {}, {})
    owned.write(Reconfigured(1, {}, 2.0, GraphChange(GRAPH.rescaled({"src": 2}), {"src": 2}, HOSTS)))
    assert owned.state.plan is not None
    assert owned.state.plan.waiting == ("src/1",)
    return owned


def hosts_of_the_next(journal: OwnedJournal, source: SourceDefinition, parallelism: int) -> dict[SubtaskId, SubtaskId]:
    record_plan(journal, "job", GRAPH.rescaled({"src": parallelism}), of(source), {}, {}, {"src": parallelism})
    assert journal.state.plan is not None
    assert journal.state.plan.waiting == (), "all that a plan has may begin"
    return dict(journal.state.hosts)


@pytest.mark.parametrize("paths", [("/in/a",), ("/in/b",), ()], ids=["the same", "read elsewhere", "over"])
def test_the_next_plan_keeps_the_hosts_of_added_subtasks(journal: OwnedJournal, paths: tuple[str, ...]) -> None:
    """A retry starts the same Airflow tasks, whatever else of the source has changed."""
    assert hosts_of_the_next(journal, replace(SOURCE, paths=paths), 2) == HOSTS


def test_a_changed_parallelism_removes_the_recorded_hosts(journal: OwnedJournal) -> None:
    assert hosts_of_the_next(journal, replace(SOURCE, parallelism=2), 2) == {}


def test_a_removed_subtask_has_no_host(journal: OwnedJournal) -> None:
    assert hosts_of_the_next(journal, SOURCE, 1) == {}
