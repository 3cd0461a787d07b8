"""Requests by which a user asks a job to stop, to drain, to change or to upgrade (R22).

A request is a file ``requests/<name>.json`` in the job's folder, so the user needs no access to the cluster. It names
the epoch that it is for, and the next driver of the job ignores it. The driver answers in the journal
(``RequestAnswered``). The file itself is never changed. A later driver deletes it, or the clean-up of a FINISHED job.
The file of a change is deleted as soon as its last answer is durable.

Any file may be put into the folder by users who may write there. So a file is read up to MOST_BYTES, and at most
MOST_FILES of a folder are read. No file can raise an error: a file that is no request gets the kind ``invalid``.
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
"""Kinds of requests after which the job continues in another form."""
KINDS = ("stop", "drain", *CHANGES)
INVALID = "invalid"
MOST_BYTES = 64 << 10
"""Size limit of a request. It is enough to change some hundred operators at once."""
MOST_FILES = 1_000
"""Files of a job's folder that are read at most. An object store lists as many names with one request."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.~-]{0,199}")
_LATEST = 253_402_300_800.0
"""Epoch seconds: the end of the year 9999."""
_LAST_EPOCH = 2**63 - 1
_SHOWN = 300
"""Characters that are kept of a problem."""


@dataclass(frozen=True)
class RescaleRequest:
    """A request that ``parallelism`` subtasks read the remaining splits of source ``uid``."""

    uid: str
    parallelism: int


Changes = Mapping[str, VertexSettings]
"""Operator uid → settings to change in the query that runs it."""


@dataclass(frozen=True)
class UpgradeRequest:
    """A request that the same driver resumes the job as another version.

    Args:
        job: Reference of the new version's job where the driver runs; None to read the current reference again.
        allow_non_restored_state: True if the new version may lack operators of the job.
    """

    job: str | None = None
    allow_non_restored_state: bool = False


@dataclass(frozen=True)
class Request:
    """One request.

    Args:
        kind: A kind of KINDS, or ``invalid``.
        at: Time of the request in epoch seconds.
        problem: Reason why an invalid file could not be understood.
    """

    name: str
    kind: str
    epoch: int
    at: float
    problem: str | None = None
    leaves: bool = False
    """For a stop: True if the driver must leave even if it cannot take a savepoint."""
    at_once: bool = False
    """For a drain: True if live sources end at once, and leave the rest of their input unread."""
    rescale: RescaleRequest | None = None
    """The change, for a request of that kind."""
    changes: Changes = field(default_factory=dict)
    """The changes, for a reconfiguration."""
    upgrade: UpgradeRequest | None = None
    """The new version, for an upgrade."""
    is_unreadable: bool = False
    """For an invalid request: True if the file is no request at all, or cannot be read. It gets no answer, because it
    may be a request at the next poll. Any other invalid request is refused in the journal, because its author waits for
    an answer."""

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
    """Write a request to the driver of ``epoch``. Return its name, under which the journal answers it.

    A stop takes a savepoint, releases it and ends the run. A drain runs the job to its end of data, until it is
    FINISHED. An upgrade resumes the job as another version.

    Args:
        leaves: For a stop: True because the driver's process is about to end. Without it a stop that fails leaves the
            job running.
        at_once: For a drain: True to leave the waiting input of live sources unread.
        rescale: Change of a request of kind "rescale".
        changes: Changes of a request of kind "reconfigure".
        upgrade: New version of a request of kind "upgrade".
        now: Function that returns epoch seconds.

    Raises UnknownRequestKindError, InvalidJobIdError, RequestTooLargeError, the storage's errors, and ValueError if the
    kind and its details do not match.
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
    """Return the unanswered requests for ``epoch``, oldest first. Files that cannot be understood come last, with kind
    ``invalid``.

    A request for an earlier epoch counts as older, because the clocks of users may differ. This costs one LIST, and one
    read for each unanswered request.

    Args:
        answered: Names of requests that are answered.
        since: First epoch whose requests are also returned. Such requests were for an earlier JobMaster of the same
            deployment (W20), or for the same driver before an upgrade.
    """
    found = [
        read_request(storage, job_id, name, epoch) for name in request_names(storage, job_id) if name not in answered
    ]
    first = epoch if since is None else since
    mine = [request for request in found if request is not None and first <= request.epoch <= epoch]
    return in_order(mine)


def in_order(requests: Iterable[Request]) -> list[Request]:
    """Return the requests by epoch and time, invalid ones last."""
    return sorted(requests, key=lambda request: (request.kind == INVALID, request.epoch, request.at, request.name))


def request_names(storage: Storage, job_id: str) -> list[str]:
    """Return the names of at most MOST_FILES files that may be requests."""
    listed = storage.list_some(requests_path(job_id), MOST_FILES)
    return [entry.removesuffix(".json") for entry in listed if entry.endswith(".json")]


def forget_requests(storage: Storage, job_id: str, epoch: int, *, keep_leaves: bool = False) -> None:
    """Delete the requests for drivers before ``epoch``. No driver takes them any longer, and their authors read the
    journal.

    The driver of ``epoch`` calls this once it owns the job.

    Args:
        keep_leaves: True for a driver that ends. It keeps requests to leave, because they show until the next driver
            comes why this one has left.
    """
    for request in _requests_before(storage, job_id, epoch):
        if not (keep_leaves and request.leaves):
            storage.delete(request_path(job_id, request.name))


def requests_before(storage: Storage, job_id: str, epoch: int) -> list[str]:
    """Return the names of the requests for drivers before ``epoch``. A file that cannot be understood is not among
    them."""
    return [request.name for request in _requests_before(storage, job_id, epoch)]


def _requests_before(storage: Storage, job_id: str, epoch: int) -> list[Request]:
    found = [read_request(storage, job_id, name, epoch) for name in request_names(storage, job_id)]
    return [request for request in found if request is not None and request.epoch < epoch]


def withdraw_leaves(storage: Storage, job_id: str, epoch: int) -> int:
    """Delete the requests to leave (``leaves``) up to ``epoch``, and return how many there were.

    Their author's process was about to end, and now wants the job to continue. A request that a driver has taken is
    still carried out.
    """
    asked = [one for one in pending_requests(storage, job_id, epoch, (), since=0) if one.leaves]
    for request in asked:
        storage.delete(request_path(job_id, request.name))
    return len(asked)


def read_request(storage: Storage, job_id: str, name: str, epoch: int) -> Request | None:
    """Return the request in one file; None if it was deleted since it was listed.

    Args:
        epoch: Epoch for a file that names none, because the reader of the file must answer it.

    Raises only errors which mean that the storage cannot be reached.
    """
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
    """Shorten a problem, because the author of a file decides how long its values are, and the journal keeps the
    problem."""
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
