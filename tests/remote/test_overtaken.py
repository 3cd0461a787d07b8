"""A JobMaster that was paused, overtaken and resumed.

It deletes nothing that its successor and the successor's workers still need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from airflow_provider_ckpt.journal.errors import FencedError
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.model.job_request import DrainRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.remote.remote_gateway import RemoteGateway
from airflow_provider_ckpt.storage.layout import deployment_path
from tests.remote.jobs import endless
from tests.remote.master_process import MasterProcess
from tests.remote.process import SimulatedProcess
from tests.remote.worker_process import WorkerProcess
from tests.simulation.world import JOB

FOLDER = deployment_path(JOB, 1)
FOR_EVER = 1e9


class Succession:
    """A running job with JobMaster ``old`` of epoch 2 and one worker for each subtask.

    ``at_deletion``: called when ``old`` is about to delete a worker's outbox.
    """

    def __init__(self) -> None:
        cluster = self.cluster = endless()
        cluster.supervises = False
        cluster.timing = replace(cluster.timing, silence=FOR_EVER)
        cluster.planner().run()
        self.old = cluster.master()
        self.workers = [cluster.worker(group) for group in cluster.groups]
        for process in (self.old, *self.workers):
            cluster.add(process)
        cluster.run(lambda: cluster._watched.refresh().status is JobStatus.RUNNING and cluster.state.last_released > 0)
        self.at_deletion: Callable[[], None] | None = None
        self.cluster.at_verb = self._at_verb  # type: ignore[method-assign]

    def _at_verb(self, process: SimulatedProcess, when: str, verb: str, path: str) -> None:
        act = self.at_deletion
        if process is self.old and (when, verb) == ("before", "delete") and path.startswith(FOLDER) and act:
            self.at_deletion = None
            act()

    def add_successor(self) -> MasterProcess:
        """Let another JobMaster claim the job, and let the awake workers notice it. Return the new JobMaster.

        It is asleep, and has read none of the workers' messages.
        """
        cluster, new = self.cluster, self.cluster.master()
        cluster.add(new)
        cluster.run(lambda: cluster._watched.refresh().epoch == 3, 2000)
        new.wakes_at = FOR_EVER
        cluster.run(lambda: all(self.epoch_of(process) == 3 for process in cluster.awake(WorkerProcess)))
        return new

    @staticmethod
    def epoch_of(process: SimulatedProcess) -> int:
        return process.worker._epoch if isinstance(process, WorkerProcess) and process._begun else 0

    def poll_once(self, master: MasterProcess) -> None:
        assert master.job is not None
        gateway = master.job._gateway
        assert isinstance(gateway, RemoteGateway)
        gateway.poll()

    def written(self) -> dict[str, bytes]:
        live = self.cluster.world.live
        return {name: live.read(f"{FOLDER}/{name}") for name in live.list(FOLDER)}

    def for_successor(self) -> dict[str, bytes]:
        return {name: content for name, content in self.written().items() if b'"master-0003"' in content}

    def finish(self) -> None:
        """Replace the workers that left, drain the job, and check that each row arrives once."""
        cluster = self.cluster
        cluster.supervises = True
        write_request(cluster.world.live, JOB, DrainRequest(epoch=3))
        cluster.finish()


@pytest.fixture
def job() -> Iterator[Succession]:
    made = Succession()
    yield made
    made.cluster.world.delete()


def test_w27_a_worker_s_last_report_to_the_successor_stays(job: Succession) -> None:
    """The worker leaves, and reports it to the successor. The paused JobMaster reads the outbox first."""
    cluster, leaves = job.cluster, job.workers[0]
    job.old.wakes_at = FOR_EVER
    new = job.add_successor()
    leaves.worker.leave()
    cluster.run(lambda: leaves.is_over)
    before = job.written()
    with pytest.raises(FencedError):
        job.poll_once(job.old)
    assert job.written() == before
    new.wakes_at = job.old.wakes_at = 0.0
    cluster.run(lambda: job.old.is_over)
    assert isinstance(job.old.error, FencedError)
    began = cluster.clock.now
    cluster.run(lambda: f"worker-{leaves.name}-0003.json" not in job.written())  # the successor has read it
    assert cluster.clock.now - began < cluster.timing.lost_after, "as one that has said that it leaves"
    job.finish()


@pytest.mark.slow
@pytest.mark.parametrize("has_left", [True, False], ids=["it has left", "it gave no sign of life"])
def test_w27_a_jobmaster_paused_before_a_deletion_spares_its_successor(job: Succession, has_left: bool) -> None:
    """The old JobMaster has checked the journal already.

    This worker, or its replacement, then works for the successor.
    """
    cluster, gone = job.cluster, job.workers[0]
    seen: list[dict[str, bytes]] = []
    news: list[MasterProcess] = []

    def meanwhile() -> None:
        news.append(job.add_successor())
        gone.wakes_at, gone.tasks = 0.0, []  # it first finds that there is another JobMaster
        cluster.run(lambda: gone.is_over, 2000)
        cluster.run(lambda: len(job.for_successor()) == len(at_work), 2000)
        seen.append(job.for_successor())

    if has_left:
        gone.worker.leave()
        cluster.run(lambda: gone.is_over)
    else:
        gone.wakes_at = FOR_EVER
    another = cluster.add(cluster.worker(gone.subtasks))
    at_work = [*job.workers[1:], another, *([] if has_left else [gone])]
    job.at_deletion = meanwhile
    cluster.run(lambda: bool(seen) and not job.old.is_busy)
    assert job.for_successor().keys() == seen[0].keys()
    news[0].wakes_at = 0.0
    cluster.run(lambda: job.old.is_over)
    assert isinstance(job.old.error, FencedError)
    job.finish()
