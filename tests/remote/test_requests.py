"""Stop, drain and change requests while JobMasters and workers come and go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.model.job_request import DrainRequest, JobRequest, ReconfigureRequest, StopRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestResult
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.storage.layout import requests_path
from tests.remote.cluster import Cluster
from tests.remote.jobs import endless, one_worker
from tests.remote.master_process import MasterProcess
from tests.remote.worker_process import WorkerProcess
from tests.simulation.world import JOB


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster whose job runs, with all processes alive."""
    made = endless()
    made.run(lambda: made.state.status is JobStatus.RUNNING)
    yield made
    made.world.delete()


def ask(cluster: Cluster, request: JobRequest) -> str:
    return write_request(cluster.world.live, JOB, replace(request, epoch=cluster.state.epoch)).name


def by(uid: str, parallelism: int) -> ReconfigureRequest:
    return ReconfigureRequest({uid: VertexSettings(parallelism=parallelism)})


def is_answered(cluster: Cluster, name: str) -> bool:
    state = cluster._watched.refresh()
    return name in state.outcomes or name in state.answered


@pytest.mark.parametrize("early", [True, False], ids=["not taken yet", "taken"])
def test_the_next_jobmaster_continues_a_drain(cluster: Cluster, early: bool) -> None:
    name = ask(cluster, DrainRequest())
    if not early:
        cluster.run(lambda: is_answered(cluster, name))
    cluster.awake(MasterProcess)[0].kill()
    cluster.finish()
    assert cluster.state.outcomes[name].is_carried_out


def test_a_stop_while_a_worker_is_missing_waits_for_it(cluster: Cluster) -> None:
    """The savepoint must cover all subtasks."""
    victim = cluster.awake(WorkerProcess)[0]
    victim.kill()
    cluster.supervises = False
    name = ask(cluster, StopRequest())
    cluster.run(lambda: is_answered(cluster, name))
    assert isinstance(victim, WorkerProcess)
    cluster.add(cluster.worker(victim.subtasks))
    cluster.run(lambda: not cluster.state.status or not cluster._watched.refresh().is_held)
    assert cluster.state.status is JobStatus.STOPPED
    assert cluster.state.outcomes[name].is_carried_out
    cluster.run(lambda: not cluster.processes)
    cluster.supervises = True
    cluster.run(lambda: cluster.state.status is JobStatus.RUNNING)  # a planner, a JobMaster and workers start again
    ask(cluster, DrainRequest())
    cluster.finish()


@pytest.mark.slow
def test_a_missing_worker_ends_the_run(cluster: Cluster) -> None:
    cluster.awake(WorkerProcess)[0].kill()
    cluster.supervises = False
    cluster.run(lambda: cluster._watched.refresh().status is JobStatus.RESTARTING)
    assert "its next attempt has not begun" in str(cluster.state.cause)
    cluster.run(lambda: not cluster.processes)


def test_a_rescale_of_a_vertex_without_splits_is_refused(cluster: Cluster) -> None:
    name = ask(cluster, by("live", 3))
    cluster.run(lambda: is_answered(cluster, name))
    assert cluster.state.outcomes[name].result is RequestResult.REFUSED
    cluster.run(lambda: not cluster.world.live.list(requests_path(JOB)))  # the request is deleted once it is answered


@pytest.mark.slow
def test_w20_a_rescale_that_a_dead_jobmaster_decided_is_carried_out() -> None:
    """The next JobMaster takes the request again, and has nothing left to decide."""
    cluster = one_worker(splits=60, workers=3)
    cluster.supervises = True
    cluster.run(lambda: cluster.state.status is JobStatus.RUNNING)
    name = ask(cluster, by("src", 5))
    cluster.run(lambda: is_answered(cluster, name))
    assert len(cluster.state.graph().vertex("src").subtasks) == 5
    assert name not in cluster.state.outcomes, "it is decided, and not over"
    cluster.awake(MasterProcess)[0].kill()
    cluster.finish()
    assert cluster.state.outcomes[name].is_carried_out, cluster.state.outcomes[name]
    cluster.world.delete()


@pytest.mark.slow
def test_a_repeated_rescale_is_answered_as_completed() -> None:
    """A retried Airflow task repeats its request. By then all splits may be assigned."""
    cluster = one_worker(splits=60, workers=3)
    cluster.supervises = True
    cluster.run(lambda: cluster.state.status is JobStatus.RUNNING)
    name = ask(cluster, by("src", 5))
    cluster.run(lambda: name in cluster._watched.refresh().outcomes)
    again = ask(cluster, by("src", 5))
    cluster.run(lambda: again in cluster._watched.refresh().outcomes)
    assert str(cluster._watched.refresh().outcomes[again]) == "completed: nothing had to be changed"
    cluster.run(lambda: not cluster.world.live.list(requests_path(JOB)))
    cluster.finish()
    cluster.world.delete()


CUT, LOGIC = VertexSettings(state_partitions=5), VertexSettings(logic={"b": "v2.py:job"})


@pytest.mark.slow
@pytest.mark.parametrize("change", [CUT, LOGIC], ids=["cut", "logic"])
@pytest.mark.parametrize("moment", ["asked", "taken", "decided"])
def test_w20_a_change_is_applied_though_the_jobmaster_dies(
    cluster: Cluster, change: VertexSettings, moment: str
) -> None:
    """The next JobMaster does not repeat a decided change. It applies an undecided one as soon as the job runs.

    The journal's decision names its request.
    """
    name = ask(cluster, ReconfigureRequest({"b": change}))

    def has_come_so_far() -> bool:
        state = cluster._watched.refresh()
        return {"asked": True, "taken": name in state.answered, "decided": state.reconfigured == 1}[moment]

    cluster.run(has_come_so_far)
    assert name not in cluster.state.outcomes
    cluster.awake(MasterProcess)[0].kill()
    cluster.run(lambda: name in cluster._watched.refresh().outcomes)
    state = cluster._watched.refresh()
    assert state.outcomes[name].is_carried_out, state.outcomes[name]
    assert (state.reconfigured, state.reconfigured_for) == (1, name)
    before = moment == "decided"
    assert state.outcomes[name].detail.startswith("it was decided before" if before else "b was paused"), moment


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["asked", "taken", "decided"])
@pytest.mark.parametrize("back", ["logic", "weight"])
def test_w20_an_older_change_does_not_override_a_newer_one(cluster: Cluster, back: str, moment: str) -> None:
    """A user reverts a bad version while the job waits for a worker.

    The JobMaster that took the request for the bad version has died. The older request is completed first. The newer
    one is then refused, or it takes effect after a decided older one.
    """
    older = LOGIC if back == "logic" else VertexSettings(pool_weight=2)
    two = VertexSettings(logic={"b": ""}) if back == "logic" else VertexSettings(pool_weight=3)
    first = ask(cluster, ReconfigureRequest({"b": older}))

    def has_come_so_far() -> bool:
        state = cluster._watched.refresh()
        return {"asked": True, "taken": first in state.answered, "decided": state.reconfigured == 1}[moment]

    cluster.run(has_come_so_far)
    epoch = cluster.state.epoch
    cluster.awake(MasterProcess)[0].kill()
    workers = [worker for worker in cluster.awake(WorkerProcess) if isinstance(worker, WorkerProcess)]
    victim = next(worker for worker in workers if worker.subtasks == ("live/1",))
    victim.kill()
    cluster.supervises = False
    cluster.add(cluster.master())
    cluster.run(lambda: cluster._watched.refresh().epoch > epoch)
    here = cluster.clock.now + 3
    cluster.run(lambda: cluster.clock.now > here)  # all workers but one have started
    second = ask(cluster, ReconfigureRequest({"b": two}))
    if moment == "decided":
        cluster.run(lambda: second in cluster._watched.refresh().outcomes)
    else:
        later = cluster.clock.now + 3
        cluster.run(lambda: cluster.clock.now > later)
        assert not {first, second} & cluster._watched.refresh().outcomes.keys(), "one worker is missing yet"
    cluster.add(cluster.worker(victim.subtasks))
    cluster.run(lambda: {first, second} <= cluster._watched.refresh().outcomes.keys())
    state = cluster._watched.refresh()
    assert state.outcomes[first].is_carried_out
    if moment == "decided":
        assert state.outcomes[second].is_carried_out
        assert state.settings.get("b") == (None if back == "logic" else two)
    else:
        assert str(state.outcomes[second]) == f"refused: reconfiguration 1 (of b, request {first}) is in progress"
        assert state.settings["b"].changed_values() == older.changed_values()


def test_w20_a_change_of_a_job_that_does_not_start_is_refused(cluster: Cluster) -> None:
    cluster.supervises = False
    name = ask(cluster, ReconfigureRequest({"b": CUT}))
    for process in (*cluster.awake(WorkerProcess), *cluster.awake(MasterProcess)):
        process.kill()
    cluster.add(cluster.master())
    cluster.run(lambda: name in cluster._watched.refresh().outcomes)
    assert "does not run now" in cluster._watched.refresh().outcomes[name].detail
