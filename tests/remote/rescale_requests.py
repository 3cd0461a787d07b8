"""Rescale requests of a simulated user."""

from __future__ import annotations

from random import Random

from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_request import ReconfigureRequest
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.storage.storage import Storage
from tests.simulation.world import JOB

MOST = 6


def request_rescale(storage: Storage, state: JobState, uid: str, parallelism: int) -> str | None:
    """Write a rescale request. Return its name, or None if the job has no deployment."""
    if not state.deployment:
        return None
    changes = {uid: VertexSettings(parallelism=parallelism)}
    return write_request(storage, JOB, ReconfigureRequest(changes, epoch=state.epoch)).name


def request_random_parallelism(storage: Storage, state: JobState, random: Random) -> None:
    """Request other parallelisms for one source with splits, or for several at once."""
    uids = [vertex.uid for vertex in state.graph().vertices if vertex.splits]
    if len(uids) < 2 or random.random() < 0.5:
        request_rescale(storage, state, random.choice(uids or [""]), random.randint(1, MOST))
    elif state.deployment:
        chosen = random.sample(uids, random.randint(1, len(uids)))
        changes = {uid: VertexSettings(parallelism=random.randint(1, MOST)) for uid in chosen}
        write_request(storage, JOB, ReconfigureRequest(changes, epoch=state.epoch))
