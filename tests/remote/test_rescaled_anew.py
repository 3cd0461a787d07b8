"""A rescaled job that restarts from scratch with fewer subtasks of a source, and is rescaled again (R21).

The logs of the returning subtasks still exist, but their entries no longer count.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from airflow_provider_ckpt.jobmaster.recorded_plan import record_plan
from airflow_provider_ckpt.jobmaster.recovery import takeover
from airflow_provider_ckpt.jobmaster.recovery.opened_logs import open_logs, void_removed_logs
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.recovery.recovery_point import load_logs
from airflow_provider_ckpt.journal.events import DeploymentPrepared, GraphChange, Reconfigured, Restored, SourceFrozen
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.worker import Worker as Place
from airflow_provider_ckpt.status.status_line import StatusLine
from airflow_provider_ckpt.status.status_reporter import StatusReporter
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.subtasklog.log_reader import TailingLogReader
from airflow_provider_ckpt.subtasklog.records import Batch
from tests.remote.cluster import Cluster
from tests.remote.jobs import one_worker
from tests.simulation.world import JOB

HOST, GUEST = SubtaskId("src/0"), SubtaskId("src/1")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster whose processes all died. src/1 has published some splits, and no checkpoint has completed."""
    cluster = one_worker("streaming", splits=8)
    cluster.checkpoint_interval = 1e9
    cluster.planner().run()
    cluster.add(cluster.master())
    cluster.add(cluster.worker(cluster.graph.subtasks))
    cluster.run(lambda: bool(published(cluster)))
    for process in cluster.processes:
        process.kill()
    yield cluster
    cluster.world.delete()


def published(cluster: Cluster) -> list[Batch]:
    log = TailingLogReader(cluster.world.live, subtask_log_path(JOB, GUEST.vertex, GUEST.number))
    return [record for _, record in log.records() if isinstance(record, Batch)]


def start_from_scratch(cluster: Cluster) -> OwnedJournal:
    """Restart the job from scratch as a planner does, with one subtask instead of three."""
    replayed = Journal(cluster.world.live, JOB, clock=cluster.clock)
    replayed.refresh()
    epoch = takeover.claim(replayed, "anew", Place("p")).epoch
    journal, definition = OwnedJournal(replayed), replayed.state.definition
    assert definition is not None
    frozen = journal.state.frozen["src"]
    assert frozen.path is not None
    vertices = tuple(replace(vertex, parallelism=1) if vertex.splits else vertex for vertex in cluster.graph.vertices)
    narrow = replace(cluster.graph, vertices=vertices)
    journal.write(Restored(0, {}, time.time(), from_scratch=True))
    record_plan(journal, JOB, narrow, definition, {}, {}, {"src": 1})
    journal.write(SourceFrozen("src", frozen.path, frozen.count, time.time()))
    open_logs(journal, load_logs(cluster.world.live, JOB, narrow), epoch, "streaming", None)
    void_removed_logs(journal, cluster.world.live, epoch)
    journal.write(DeploymentPrepared(epoch, time.time()))
    return journal


def test_r21_a_returning_subtask_reads_its_old_splits_again(cluster: Cluster) -> None:
    """The log must be voided before a JobMaster reads it, also before the subtask begins.

    Otherwise that JobMaster would count the old splits as done. The next attempt voids them, so no subtask would read
    them.
    """
    journal = start_from_scratch(cluster)
    assert published(cluster) == []
    wider = journal.state.graph().rescaled({"src": 2})
    journal.write(Reconfigured(1, {}, time.time(), GraphChange(wider, {"src": 2}, {GUEST: HOST})))
    master = cluster.master()
    master.run()
    assert master.job is not None, master.error
    assert master.job._coordinator._state.splits.progress("src") == (8, 0, 8)


def test_entries_of_the_current_deployment_stay(cluster: Cluster) -> None:
    """The next planner voids no entries of this deployment."""
    journal = start_from_scratch(cluster)
    log = subtask_log_path(JOB, GUEST.vertex, GUEST.number)
    before = TailingLogReader(cluster.world.live, log).position
    void_removed_logs(journal, cluster.world.live, journal.state.epoch)
    assert TailingLogReader(cluster.world.live, log).position == before


def test_an_unassigned_hosted_subtask_is_reported_by_its_host(cluster: Cluster) -> None:
    """No worker can be requested by the name of a hosted subtask."""
    journal = start_from_scratch(cluster)
    wider = journal.state.graph().rescaled({"src": 2})
    journal.write(Reconfigured(1, {}, time.time(), GraphChange(wider, {"src": 2}, {GUEST: HOST})))
    master, lines = cluster.master(), list[StatusLine]()
    master.run()
    master.master._status = StatusReporter(lines.append, JOB, None, "/r")
    master.master._report_unassigned(master.owned, [HOST, GUEST, SubtaskId("b/0")])
    assert [line.data["subtasks"] for line in lines] == [[HOST, "b/0"]]
