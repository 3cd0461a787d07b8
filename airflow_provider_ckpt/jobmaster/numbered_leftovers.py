"""Search for files of a past epoch, generation or checkpoint. These numbers only grow. So a driver that claims the job
after its journal was read has higher numbers, and needs none of these files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_provider_ckpt.jobmaster.garbage import Garbage, Reason, garbage_of
from airflow_provider_ckpt.journal.requests import requests_before
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.layout import (
    checkpoint_path,
    deployment_path,
    deployments_path,
    frozen_path,
    job_path,
    late_path,
    request_path,
)
from airflow_provider_ckpt.storage.storage import Storage

_FROZEN = re.compile(r"(\w+?)(?:\.(\d{4,}))?\.json", re.ASCII)


def numbered_leftovers(storage: Storage, state: JobState) -> Iterator[Garbage]:
    """Yield the files of past epochs, generations and checkpoints.

    Args:
        state: State of the journal, read before this function lists anything.
    """
    # a deployment spans several epochs of JobMasters, and a driver that was upgraded spans several, too
    job_id, first = state.job_id, state.deployment or state.driver_since or state.epoch
    for name in requests_before(storage, job_id, first):
        yield from _file(storage, request_path(job_id, name), Reason.REQUEST)
    for name in storage.list(deployments_path(job_id)):
        if name.isdecimal() and int(name) < first:
            yield from _folder(storage, deployment_path(job_id, int(name)), Reason.DEPLOYMENT)
    for name in storage.list(f"{job_path(job_id)}/checkpoints"):
        number = name.removeprefix("chk-")
        if number.isdecimal() and int(number) <= state.last_completed and int(number) not in state.checkpoints:
            yield from _folder(storage, checkpoint_path(job_id, int(number)), Reason.CHECKPOINT)
    yield from _frozen(storage, state)


def _file(storage: Storage, path: str, reason: Reason) -> Iterator[Garbage]:
    try:
        yield Garbage(path, reason, 1, storage.size(path))
    except ObjectNotFoundError:
        pass  # a new driver has deleted it meanwhile


def _folder(storage: Storage, path: str, reason: Reason) -> Iterator[Garbage]:
    sizes = [size for _, size in storage.files(path)]
    if sizes:
        yield garbage_of(path, reason, sizes)


def _frozen(storage: Storage, state: JobState) -> Iterator[Garbage]:
    """Yield frozen lists of past generations.

    The name of a list has the epoch from which its source counts (``JobState.since``); 0 for the first one. If an
    operator is dropped and comes back, its list has the epoch of the driver that added it again.
    """
    folder = f"{job_path(state.job_id)}/frozen"
    named = {f"{state.job_id}/{one.path}" for one in state.frozen.values()}
    for name in storage.list(folder):
        found = _FROZEN.fullmatch(name)
        if found is None:
            continue
        uid, generation = found[1], int(found[2] or 0)
        path = frozen_path(state.job_id, uid, generation)
        has_gone = uid in state.given_up and uid not in state.graph().operators
        is_past = generation < state.since(uid) or (has_gone and generation <= state.epoch)
        if is_past and path not in named and path == f"{folder}/{name}":
            yield from _file(storage, late_path(path), Reason.FROZEN)  # first, because the list's name leads to it
            yield from _file(storage, path, Reason.FROZEN)
