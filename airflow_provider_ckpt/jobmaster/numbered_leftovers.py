"""What has a number that is past: of an epoch, a generation, a checkpoint. Each only grows, so whoever claims the job
after the look at its journal has a higher one, and needs nothing of this."""

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
    """``state``: read before this looks at anything."""
    # a deployment has JobMasters of several epochs, and so has a driver that was upgraded
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
        pass  # a driver that has come meanwhile has deleted it


def _folder(storage: Storage, path: str, reason: Reason) -> Iterator[Garbage]:
    sizes = [size for _, size in storage.files(path)]
    if sizes:
        yield garbage_of(path, reason, sizes)


def _frozen(storage: Storage, state: JobState) -> Iterator[Garbage]:
    """A list has the epoch from which on its source counts (``JobState.since``), 0 of the first: that of an operator
    which comes back has the epoch of the driver that brings it."""
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
            yield from _file(storage, late_path(path), Reason.FROZEN)  # first: it is found by the list's name
            yield from _file(storage, path, Reason.FROZEN)
