"""Requests: how somebody outside the driver asks a job to stop, to drain, to be changed, or upgraded (R22).

A request is a file ``requests/<name>.json`` under the job's folder, so it needs no access to the
cluster. It names the epoch it is meant for: the next driver of the job does nothing because of it.
The driver answers it in the journal (``RequestAnswered``); the file itself is never changed, and deleted by a later
driver or when the job has FINISHED; of a change as soon as its last answer is durable.

Whoever may write to the folder may put anything there. So a file is read up to MOST_BYTES, at most MOST_FILES of a
folder are read, and no file can raise an error: one that is no request is of kind ``invalid``.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_ckpt.journal.errors import RequestTooLargeError, UnknownRequestKindError
from airflow_provider_ckpt.model.errors import DamagedFormError, UnknownFormError
from airflow_provider_ckpt.model.json_form import read_field, reader, to_json
from airflow_provider_ckpt.model.setting_ranges import problem_of, problem_of_settings
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document
from airflow_provider_ckpt.storage.errors import (
    MalformedDocumentError,
    NewerFormatError,
    ObjectNotFoundError,
    StorageDeniedError,
    StorageFailedError,
)
from airflow_provider_ckpt.storage.layout import request_path, requests_path
from airflow_provider_ckpt.storage.storage import Storage

VERSION = 1
CHANGES = ("rescale", "reconfigure", "upgrade")
"""Kinds behind which the job goes on, as another one."""
KINDS = ("stop", "drain", *CHANGES)
INVALID = "invalid"
MOST_BYTES = 64 << 10
"""Of a request: some hundred operators can be changed by one."""
MOST_FILES = 1_000
"""Of a job's folder, that are read: as many names as an object store lists by one request."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.~-]{0,199}")
_LATEST = 253_402_300_800.0
"""Epoch seconds: the end of the year 9999."""
_LAST_EPOCH = 2**63 - 1
_SHOWN = 300
"""Characters of a problem."""


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
    the file could not be understood."""

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
    is_unreadable: bool = False
    """Of an invalid one: the file is no request at all, or nobody may read it. It may be another one at the next poll,
    so it gets no answer. Any other invalid request is refused in the journal, because somebody waits for that."""

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
    InvalidJobIdError, RequestTooLargeError, and the storage's errors; ValueError for a change that does not say to
    what.
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
    if len(document) > MOST_BYTES:
        raise RequestTooLargeError(size=len(document), most=MOST_BYTES)
    storage.create(request_path(job_id, name), document)
    return name


def pending_requests(
    storage: Storage, job_id: str, epoch: int, answered: Collection[str], since: int | None = None
) -> list[Request]:
    """The unanswered requests for ``epoch``, oldest first: what was asked of an earlier one is older, whatever the
    clocks of those who asked say. Files that cannot be understood come last, as kind ``invalid``. One LIST, and one
    read for each request that is not answered. ``since``: those for earlier epochs, too, from this one on: they are of
    the same deployment, whose JobMaster of then is gone (W20), or of the same driver, as it was before an upgrade."""
    found = [
        read_request(storage, job_id, name, epoch) for name in request_names(storage, job_id) if name not in answered
    ]
    first = epoch if since is None else since
    mine = [request for request in found if request is not None and first <= request.epoch <= epoch]
    return in_order(mine)


def in_order(requests: Iterable[Request]) -> list[Request]:
    return sorted(requests, key=lambda request: (request.kind == INVALID, request.epoch, request.at, request.name))


def request_names(storage: Storage, job_id: str) -> list[str]:
    """Return the names of at most MOST_FILES files that may be requests."""
    listed = storage.list_some(requests_path(job_id), MOST_FILES)
    return [entry.removesuffix(".json") for entry in listed if entry.endswith(".json")]


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
    found = [read_request(storage, job_id, name, epoch) for name in request_names(storage, job_id)]
    return [request for request in found if request is not None and request.epoch < epoch]


def withdraw_leaves(storage: Storage, job_id: str, epoch: int) -> int:
    """Delete the requests up to ``epoch`` to leave (``leaves``): whoever asked, because its process was to go, wants
    the job to go on after all. One that a driver has taken takes place nevertheless. How many there were."""
    asked = [one for one in pending_requests(storage, job_id, epoch, (), since=0) if one.leaves]
    for request in asked:
        storage.delete(request_path(job_id, request.name))
    return len(asked)


def read_request(storage: Storage, job_id: str, name: str, epoch: int) -> Request | None:
    """Read one file. ``epoch`` is taken for a file that does not say whom it is meant for: who reads it answers it.
    None if it was deleted since it was listed. Raises only what says that the storage is out of reach."""
    if not _NAME.fullmatch(name):
        return _unreadable(name, epoch, "no request has such a name")
    path = request_path(job_id, name)
    try:
        data = storage.read_range(path, 0, MOST_BYTES + 1)
        uri = storage.full_uri(path)
        body = decode_document(data, "request", VERSION, uri=uri, most_bytes=MOST_BYTES, foreign=True)
    except ObjectNotFoundError:
        return None
    except NewerFormatError as error:
        return _invalid(name, epoch, str(error))
    except (MalformedDocumentError, StorageDeniedError, StorageFailedError) as error:
        return _unreadable(name, epoch, str(error))
    return _understood(name, body, epoch)


def _unreadable(name: str, epoch: int, problem: str) -> Request:
    return Request(name, INVALID, epoch, 0.0, _shortened(problem), is_unreadable=True)


def _invalid(name: str, epoch: int, problem: str, at: float = 0.0) -> Request:
    return Request(name, INVALID, epoch, at, _shortened(problem))


def _shortened(problem: str) -> str:
    """Whoever wrote the file decides how long its values are, and the journal keeps the problem."""
    return problem if len(problem) <= _SHOWN else f"{problem[: _SHOWN - 1]}…"


def _understood(name: str, body: Mapping[str, Any], epoch: int) -> Request:
    wanted: Any = body.get("epoch")
    kind: Any = body.get("kind")
    at: Any = body.get("at")
    if not _is_epoch(wanted) or kind not in KINDS or not _is_time(at):
        return _invalid(name, epoch, f"kind {kind!r}, epoch {wanted!r}, at {at!r}")
    at = float(at)
    for flag in ("leaves", "at_once"):
        if not isinstance(body.get(flag, False), bool):
            return _invalid(name, wanted, f"{flag} {body[flag]!r}", at)
    asked = Request(name, kind, wanted, at, leaves=body.get("leaves", False), at_once=body.get("at_once", False))
    try:
        return _READERS[kind](asked, body)
    except UnknownFormError as error:
        return _invalid(name, wanted, error.data["what"], at)


def _is_epoch(value: Any) -> bool:
    return type(value) is int and 1 <= value <= _LAST_EPOCH


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= _LATEST


def _rescaled(asked: Request, body: Mapping[str, Any]) -> Request:
    uid: Any = body.get("uid")
    parallelism: Any = body.get("parallelism")
    problem = problem_of("parallelism", parallelism)
    if not isinstance(uid, str) or problem is not None:
        raise DamagedFormError(what=f"uid {uid!r}, parallelism {parallelism!r}: {problem or 'uid is no text'}")
    return replace(asked, rescale=RescaleRequest(uid, parallelism))


def _reconfigured(asked: Request, body: Mapping[str, Any]) -> Request:
    changes = read_field(body, "changes", reader(Changes))
    for uid, settings in changes.items():
        if (problem := problem_of_settings(settings)) is not None:
            raise DamagedFormError(what=f"changes of {uid}: {problem}")
    return replace(asked, changes=changes)


def _upgraded(asked: Request, body: Mapping[str, Any]) -> Request:
    return replace(asked, upgrade=read_field(body, "upgrade", reader(UpgradeRequest)))


def _as_asked(asked: Request, body: Mapping[str, Any]) -> Request:
    return asked


_READERS: Mapping[str, Callable[[Request, Mapping[str, Any]], Request]] = {
    "stop": _as_asked,
    "drain": _as_asked,
    "rescale": _rescaled,
    "reconfigure": _reconfigured,
    "upgrade": _upgraded,
}
