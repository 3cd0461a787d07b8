"""Progress of a random job, read from its logs. A drain ends live sources at once, so all input must be read before."""

from __future__ import annotations

from airflow_provider_ckpt.sparkfiles.attempt_folders import AttemptFolders
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles, log_offset
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.layout import subtask_log_path, subtask_path
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.random_jobs.data import Data
from tests.spark.harness import World


def all_read(world: World, data: Data) -> bool:
    """Return whether a published entry covers every file of the live sources."""
    state = world.state()
    if state.plan is None:
        return False
    return all(
        _read(world, vertex.uid, uid) >= data.fed[uid]
        for vertex in state.plan.graph.vertices
        for uid in vertex.sources
        if uid not in vertex.bounded_sources
    )


def _read(world: World, vertex: str, source: str) -> int:
    storage, home = world.storage, subtask_path(world.job_id, vertex, 0)
    log = SubtaskLog(storage, subtask_log_path(world.job_id, vertex, 0))
    try:
        log.load()
        batch = log.state.last_batch
        attempt = AttemptFolders(storage, f"{home}/spark").previous(log.records())
        if batch is None or attempt is None:
            return 0
        seen = SeenFiles(storage, f"{home}/spark/{attempt}/sources/{source}")
        return len(seen.advance(log_offset(batch.offsets.get(source))))
    except ObjectNotFoundError:
        return 0  # the log was read while it was compacted
