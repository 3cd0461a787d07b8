"""Controllers of a job with workers. The JobMaster calls them and gets the workers' batch measurements."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.coordinator.protocol import commands as cm
from airflow_provider_ckpt.coordinator.protocol import reports as rp
from airflow_provider_ckpt.coordinator.protocol import wire
from airflow_provider_ckpt.job.controller import Controller, JobMetrics
from airflow_provider_ckpt.job.reconfiguration import Reconfiguration
from airflow_provider_ckpt.journal.events import Reconfigured
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.remote.worker import MAX_UNREAD
from tests.remote.jobs import one_worker
from tests.remote.master_process import MasterProcess
from tests.remote.worker_bench import MEASURED, OPENED, PLAN, RUNNING, WORLD, WorkerBench


class More(Controller):
    """A controller that requests parallelism 5 for src."""

    def __init__(self) -> None:
        super().__init__(every=0.2, cool_down=1.0)
        self.seen: list[JobMetrics] = []

    def on_metrics(self, now: float, metrics: JobMetrics) -> Reconfiguration | None:
        self.seen.append(metrics)
        source = metrics.sources.get("src")
        if source is None or source.readers >= 5 or source.left < 5:
            return None
        return Reconfiguration("it is slow").rescale("src", parallelism=5)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True], ids=["one JobMaster", "another one"])
def test_a_controller_rescales_a_source_of_a_job_with_workers(killed: bool) -> None:
    cluster, more = one_worker(splits=60, workers=3), More()
    cluster.supervises, cluster.controllers = True, (more,)
    cluster.run(lambda: cluster.state.status is JobStatus.RUNNING)
    if killed:
        cluster.awake(MasterProcess)[0].kill()
    cluster.finish()
    changes = [event for _, event in cluster.world.journal if isinstance(event, Reconfigured)]
    assert [change.by for change in changes] == ["More"]
    assert len(cluster.state.graph().vertex("src").subtasks) == 5
    assert more.seen[0].sources["src"].total == 60
    cluster.world.delete()


@pytest.fixture
def bench(tmp_path: Path) -> WorkerBench:
    bench = WorkerBench(tmp_path)
    bench.claim()
    bench.turn(OPENED)
    bench.turn(cm.DeploySubtask(*WORLD, PLAN), RUNNING)
    bench.turn()  # the worker reads the command
    return bench


def test_a_worker_reports_its_batch_measurements(bench: WorkerBench) -> None:
    assert bench.turn(MEASURED) == [MEASURED]
    idle = rp.QueryMeasured(*WORLD, None)
    assert bench.turn(idle) == [idle]
    assert [wire.from_json(wire.to_json(report)) for report in (MEASURED, idle)] == [MEASURED, idle]


def test_unread_measurements_are_limited(bench: WorkerBench) -> None:
    """Measurements beyond the limit are dropped; other reports are not."""
    for _ in range(MAX_UNREAD + 50):
        bench.worker.post(MEASURED)
    bench.worker.post(rp.SubtaskAtEndOfData(*WORLD))
    bench.clock.now += 1.0
    bench.worker._step(bench.gateway)
    reports = bench.master.receive(bench.outbox_of_worker.name)[1]
    assert len(reports) == MAX_UNREAD + 1
    assert reports[-1] == rp.SubtaskAtEndOfData(*WORLD)
    bench.master.deliver()  # this acknowledges the messages
    assert bench.turn() == []
    assert bench.turn(MEASURED) == [MEASURED]


def test_the_next_jobmaster_gets_only_new_measurements(bench: WorkerBench) -> None:
    bench.turn(MEASURED)
    assert MEASURED not in bench.claim()
    assert MEASURED not in bench.turn(cm.DeploySubtask(*WORLD, PLAN))
    assert bench.turn(MEASURED) == [MEASURED]
