"""Requests: how somebody outside the driver asks a job to stop, to drain, to be changed, or upgraded (R22).

A request is a file ``requests/<name>.json`` under the job's folder, so it needs no access to the
cluster. It names the epoch it is meant for: the next driver of the job does nothing because of it.
The driver answers it in the journal (``RequestAnswered``); the file itself is never changed, and deleted by a later
driver or when the job has FINISHED; of a change as soon as its last answer is durable.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ckpt.journal.errors import UnknownRequestKindError
from airflow_provider_ckpt.model.errors import DamagedFormError, UnknownFormError
from airflow_provider_ckpt.model.json_form import from_json, to_json
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document
from airflow_provider_ckpt.storage.errors import MalformedDocumentError, NewerFormatError, ObjectNotFoundError
from airflow_provider_ckpt.storage.layout import request_path, requests_path
from airflow_provider_ckpt.storage.storage import Storage

VERSION = 1
CHANGES = ("rescale", "reconfigure", "upgrade")
"""Kinds behind which the job goes on, as another one."""
KINDS = ("stop", "drain", *CHANGES)


@dataclass(frozen=True)
class RescaleRequest:
    """``parallelism`` subtasks are to read the splits of source ``uid`` that are left."""

    uid: str
    parallelism: int


Changes = Mapping[str, VertexSettings]
"""By operator: what is to be another one of the query in which it runs."""


@dataclass(frozen=True)
class UpgradeRequest:
    """The job is to go on as another version of it, in the same driver. ``job``: its reference where the driver runs;
    None: that of now, read anew. ``allow_non_restored_state``: also without operators that it has."""

    job: str | None = None
    allow_non_restored_state: bool = False


@dataclass(frozen=True)
class Request:
    """One request. ``at``: epoch seconds. ``kind`` is one of KINDS, or invalid: then ``problem`` says why
    the file could not be understood, and the driver answers with it instead of reading it for ever."""

    name: str
    kind: str
    epoch: int
    at: float
    problem: str | None = None
    leaves: bool = False
    """Of a stop: the driver is to leave also when it cannot take a savepoint."""
    at_once: bool = False
    """Of a drain: live sources end where they stand."""
    rescale: RescaleRequest | None = None
    """Of that kind: what is asked for."""
    changes: Changes = field(default_factory=dict)
    """Of a reconfiguration."""
    upgrade: UpgradeRequest | None = None
    """Of that kind."""

    @property
    def is_change(self) -> bool:
        return self.kind in CHANGES


def write_request(
    storage: Storage,
    job_id: str,
    kind: str,
    epoch: int,
    *,
    leaves: bool = False,
    at_once: bool = False,
    rescale: RescaleRequest | None = None,
    changes: Changes | None = None,
    upgrade: UpgradeRequest | None = None,
    now: Callable[[], float] = time.time,
) -> str:
    """Ask the driver of ``epoch`` to stop (savepoint, release, exit), to drain (end of data, FINISHED), to rescale, to
    make ``changes``, or to go on as another version.
    A stop that fails leaves the job running, unless it ``leaves`` (the driver's process is about to go).
    ``at_once``: a drain does not read what waits in live sources.

    Returns the request's name, under which the journal answers it. Raises UnknownRequestKindError,
    InvalidJobIdError, and the storage's errors; ValueError for a change that does not say to what.
    """
    if kind not in KINDS:
        raise UnknownRequestKindError(kind=kind, known=", ".join(KINDS))
    if (kind == "rescale") is not (rescale is not None):
        raise ValueError(f"a request of kind {kind!r} with {rescale!r}")
    if (kind == "reconfigure") is not bool(changes):
        raise ValueError(f"a request of kind {kind!r} with {changes!r}")
    if (kind == "upgrade") is not (upgrade is not None):
        raise ValueError(f"a request of kind {kind!r} with {upgrade!r}")
    name = uuid.uuid4().hex
    more: dict[str, object] = {"leaves": True} if leaves else {}
    if at_once:
        more["at_once"] = True
    if rescale is not None:
        more |= {"uid": rescale.uid, "parallelism": rescale.parallelism}
    if changes:
        more["changes"] = to_json(changes)
    if upgrade is not None:
        more["upgrade"] = to_json(upgrade)
    document = encode_document("request", VERSION, kind=kind, epoch=epoch, at=now(), **more)
    storage.create(request_path(job_id, name), document)
    return name


def pending_requests(
    storage: Storage, job_id: str, epoch: int, answered: Collection[str], since: int | None = None
) -> list[Request]:
    """The unanswered requests for ``epoch``, oldest first: what was asked of an earlier one is older, whatever the
    clocks of those who asked say. Files that cannot be understood come last, as kind ``invalid``. One LIST, and one
    read for each request that is not answered. ``since``: those for earlier epochs, too, from this one on: they are of
    the same deployment, whose JobMaster of then is gone (W20), or of the same driver, as it was before an upgrade."""
    names = [entry.removesuffix(".json") for entry in storage.list(requests_path(job_id)) if entry.endswith(".json")]
    found = [_read(storage, job_id, name, epoch) for name in names if name not in answered]
    first = epoch if since is None else since
    mine = [request for request in found if request is not None and first <= request.epoch <= epoch]
    return sorted(mine, key=lambda request: (request.kind == "invalid", request.epoch, request.at, request.name))


def forget_requests(storage: Storage, job_id: str, epoch: int, *, keep_leaves: bool = False) -> None:
    """Delete the requests for drivers before ``epoch``: nobody is going to take them, and whoever waits for an answer
    reads the journal. Called by the driver of ``epoch`` once the job is its own. ``keep_leaves``: by one that ends:
    whoever looks why it did has to see, until the next one comes, that it was told to go."""
    for request in _requests_before(storage, job_id, epoch):
        if not (keep_leaves and request.leaves):
            storage.delete(request_path(job_id, request.name))


def requests_before(storage: Storage, job_id: str, epoch: int) -> list[str]:
    """The names of the requests for drivers before ``epoch``. What cannot be understood is for none of them."""
    return [request.name for request in _requests_before(storage, job_id, epoch)]


def _requests_before(storage: Storage, job_id: str, epoch: int) -> list[Request]:
    names = [entry.removesuffix(".json") for entry in storage.list(requests_path(job_id)) if entry.endswith(".json")]
    found = [_read(storage, job_id, name, epoch) for name in names]
    return [request for request in found if request is not None and request.epoch < epoch]


def withdraw_leaves(storage: Storage, job_id: str, epoch: int) -> int:
    """Delete the requests up to ``epoch`` to leave (``leaves``): whoever asked, because its process was to go, wants
    the job to go on after all. One that a driver has taken takes place nevertheless. How many there were."""
    asked = [one for one in pending_requests(storage, job_id, epoch, (), since=0) if one.leaves]
    for request in asked:
        storage.delete(request_path(job_id, request.name))
    return len(asked)


def _read(storage: Storage, job_id: str, name: str, epoch: int) -> Request | None:
    """``epoch`` is taken for a file that does not say whom it is meant for: who reads it answers it. None if a later
    driver has deleted it since it was listed."""
    path = request_path(job_id, name)
    try:
        body = decode_document(storage.read(path), "request", VERSION, uri=storage.full_uri(path))
    except ObjectNotFoundError:
        return None
    except (MalformedDocumentError, NewerFormatError) as error:
        return Request(name, "invalid", epoch, 0.0, str(error))
    wanted, kind, at = body.get("epoch"), body.get("kind"), body.get("at")
    if not isinstance(wanted, int) or kind not in KINDS or not isinstance(at, int | float):
        return Request(name, "invalid", epoch, 0.0, f"kind {kind!r}, epoch {wanted!r}, at {at!r}")
    rescale = _rescale(body) if kind == "rescale" else None
    if kind == "rescale" and rescale is None:
        problem = f"uid {body.get('uid')!r}, parallelism {body.get('parallelism')!r}"
        return Request(name, "invalid", wanted, float(at), problem)
    changes: Changes = {}
    if kind == "reconfigure":
        try:
            changes = from_json(Mapping[str, VertexSettings], body.get("changes"))  # type: ignore[type-abstract]
        except (DamagedFormError, UnknownFormError) as error:
            return Request(name, "invalid", wanted, float(at), f"changes {error}")
    upgrade: UpgradeRequest | None = None
    if kind == "upgrade":
        try:
            upgrade = from_json(UpgradeRequest, body.get("upgrade"))
        except (DamagedFormError, UnknownFormError) as error:
            return Request(name, "invalid", wanted, float(at), f"upgrade {error}")
    leaves = body.get("leaves") is True
    at_once = body.get("at_once") is True
    return Request(name, kind, wanted, float(at), None, leaves, at_once, rescale, changes, upgrade)


def _rescale(body: Mapping[str, Any]) -> RescaleRequest | None:
    """None for what cannot be understood."""
    uid, parallelism = body.get("uid"), body.get("parallelism")
    if not isinstance(uid, str) or type(parallelism) is not int:
        return None
    return RescaleRequest(uid, parallelism)
