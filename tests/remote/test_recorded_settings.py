"""Settings that the next plan keeps of the changes in a run (R21)."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ckpt.jobmaster.recorded_plan import record_plan
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.journal.events import Reconfigured
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root

NOTHING = JobDefinition("streaming", {}, {}, {})


def of(*operators: str) -> JobGraph:
    """Return a graph of one query, named by its last operator."""
    return JobGraph((JobVertex(operators[-1], operators, ("live",), (), (), bounded=False),), ())


def test_r21_a_removed_operator_loses_its_assigned_function(tmp_path: Path) -> None:
    """When the operator returns it is new, and has the function that the job declares."""
    made = Journal(open_root(open_storage(tmp_path)), "job")
    made.claim("a", Worker(), 1.0)
    journal = OwnedJournal(made)
    record_plan(journal, "job", of("live", "x", "y"), NOTHING, {}, {})
    both = VertexSettings(pool_weight=3, logic={"x": "v2.py:job", "y": "v2.py:job"}, digests={"x": "0a", "y": "0a"})
    journal.write(Reconfigured(1, {"y": both}, 2.0))
    record_plan(journal, "job", of("live", "x", "y"), NOTHING, {}, {})
    assert journal.state.settings == {"y": both}
    record_plan(journal, "job", of("live", "y"), NOTHING, {}, {})
    left = VertexSettings(pool_weight=3, logic={"y": "v2.py:job"}, digests={"y": "0a"})
    assert journal.state.settings == {"y": left}
    record_plan(journal, "job", of("live", "x", "y"), NOTHING, {}, {})
    assert journal.state.settings == {"y": left}
