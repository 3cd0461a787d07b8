"""Requests by which a user asks a job to stop, to drain, to change or to upgrade (R22).

A request is a file ``requests/<name>.json`` in the job's folder, so the user needs no access to the cluster. A request
is for the driver of one epoch, and later drivers ignore it. The driver answers in the journal (``RequestAnswered``) and
never changes the file. A later driver, or the clean-up of a FINISHED job, deletes the file. The file of a change is
deleted as soon as its last answer is durable.

Users who may write to the folder may put any file there. So a file is read up to MOST_BYTES, and at most MOST_FILES of
a folder are read. No file can raise an error: a file that is no request gets the kind ``invalid``.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from airflow_provider_ckpt.journal.errors import RequestTooLargeError
from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.job_request import REQUESTS, InvalidRequest, JobRequest, asks_to_exit
from airflow_provider_ckpt.model.json_form import fields_to_json, reader
from airflow_provider_ckpt.storage.envelope import CHECKSUM, decode_document, encode_document
from airflow_provider_ckpt.storage.errors import (
    MalformedDocumentError,
    NewerFormatError,
    ObjectNotFoundError,
    StorageDeniedError,
    StorageFailedError,
)
from airflow_provider_ckpt.storage.layout import request_path, requests_path
from airflow_provider_ckpt.storage.storage import Storage

R = TypeVar("R", bound=JobRequest)

VERSION = 1
MOST_BYTES = 64 << 10
"""Maximum size of a request's file in bytes, enough to change some hundred operators."""
MOST_FILES = 1_000
"""Maximum number of files in a job's folder of requests that are read. An object store lists 1,000 names at once."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.~-]{0,199}")
_LATEST = 253_402_300_800.0
"""Latest time of a request in epoch seconds: the end of the year 9999."""
_LAST_EPOCH = 2**63 - 1
_MAX_PROBLEM = 300
"""Maximum length in characters of the text that says why a request is invalid."""
_ENVELOPE_KEYS = ("format", "version", "kind", CHECKSUM)
"""Keys of a file that are no fields of the request."""


def write_request(storage: Storage, job_id: str, request: R) -> R:
    """Write a request for the driver of ``request.epoch``. Return the request with its new name, and
    with the current time if it had none.

    Raises InvalidJobIdError, RequestTooLargeError, and the storage's errors.
    """
    written = replace(request, name=uuid.uuid4().hex, at=request.at or time.time())
    document = encode_document("request", VERSION, kind=written.kind, **fields_to_json(written))
    if len(document) > MOST_BYTES:
        raise RequestTooLargeError(size=len(document), most=MOST_BYTES)
    storage.create(request_path(job_id, written.name), document)
    return written


def pending_requests(
    storage: Storage, job_id: str, epoch: int, answered: Collection[str], since: int | None = None
) -> list[JobRequest]:
    """Return the unanswered requests for ``epoch``, oldest first. Unreadable files come last, with kind ``invalid``.

    A request for an earlier epoch counts as older, because the clocks of users may differ. This costs one LIST, and one
    read for each unanswered request.

    Args:
        since: First epoch whose requests are returned; None for ``epoch``. Earlier requests were for an earlier
            JobMaster of the same deployment (W20), or for the same driver before an upgrade.
    """
    requests = [
        read_request(storage, job_id, name, epoch) for name in request_names(storage, job_id) if name not in answered
    ]
    first = epoch if since is None else since
    current = [request for request in requests if request is not None and first <= request.epoch <= epoch]
    return in_order(current)


def in_order(requests: Iterable[JobRequest]) -> list[JobRequest]:
    """Return the requests sorted by epoch, then by time. Invalid requests come last."""
    return sorted(
        requests, key=lambda request: (isinstance(request, InvalidRequest), request.epoch, request.at, request.name)
    )


def request_names(storage: Storage, job_id: str) -> list[str]:
    """Return the names of at most MOST_FILES files that may be requests, without ".json"."""
    listed = storage.list_some(requests_path(job_id), MOST_FILES)
    return [entry.removesuffix(".json") for entry in listed if entry.endswith(".json")]


def forget_requests(storage: Storage, job_id: str, epoch: int, *, keep_leave_requests: bool = False) -> None:
    """Delete the requests for drivers before ``epoch``. The driver of ``epoch`` calls this when it owns the job.

    With ``keep_leave_requests``, requests to exit are not deleted, because they show why a driver has exited.
    """
    for request in _requests_before(storage, job_id, epoch):
        if not (keep_leave_requests and asks_to_exit(request)):
            storage.delete(request_path(job_id, request.name))


def requests_before(storage: Storage, job_id: str, epoch: int) -> list[str]:
    """Return the names of the requests for drivers before ``epoch``, without unreadable files."""
    return [request.name for request in _requests_before(storage, job_id, epoch)]


def _requests_before(storage: Storage, job_id: str, epoch: int) -> list[JobRequest]:
    requests = [read_request(storage, job_id, name, epoch) for name in request_names(storage, job_id)]
    return [request for request in requests if request is not None and request.epoch < epoch]


def withdraw_leaves(storage: Storage, job_id: str, epoch: int) -> int:
    """Delete requests to exit (``exit_if_it_fails``) for epochs up to ``epoch``. Return how many there were.

    The process that wrote these requests was about to end, and now wants the job to continue. A request that a driver
    has already accepted is still carried out.
    """
    leave_requests = [
        request for request in pending_requests(storage, job_id, epoch, (), since=0) if asks_to_exit(request)
    ]
    for request in leave_requests:
        storage.delete(request_path(job_id, request.name))
    return len(leave_requests)


def read_request(storage: Storage, job_id: str, name: str, epoch: int) -> JobRequest | None:
    """Return the request in a file; None if the file is gone.

    ``epoch`` is the epoch of the driver that reads the file. An invalid request without an epoch gets this epoch.

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
    return _parse_request(name, body, epoch)


def _unreadable(name: str, epoch: int, problem: str) -> InvalidRequest:
    return InvalidRequest(_shorten(problem), is_unreadable=True, name=name, epoch=epoch)


def _invalid(name: str, epoch: int, problem: str, at: float = 0.0) -> InvalidRequest:
    return InvalidRequest(_shorten(problem), name=name, epoch=epoch, at=at)


def _shorten(problem: str) -> str:
    """Shorten a problem, because it quotes values of any length and the journal records it."""
    return problem if len(problem) <= _MAX_PROBLEM else f"{problem[: _MAX_PROBLEM - 1]}…"


def _parse_request(name: str, body: Mapping[str, Any], reader_epoch: int) -> JobRequest:
    kind: Any = body.get("kind")
    epoch_value: Any = body.get("epoch")
    at_value: Any = body.get("at")
    if not isinstance(kind, str) or kind not in REQUESTS or not _is_epoch(epoch_value) or not _is_time(at_value):
        return _invalid(name, reader_epoch, f"kind {kind!r}, epoch {epoch_value!r}, at {at_value!r}")
    try:
        fields = {key: value for key, value in body.items() if key not in _ENVELOPE_KEYS}
        request: JobRequest = replace(reader(REQUESTS[kind])(fields), name=name)
        problem = request.value_problem()
    except UnknownFormError as error:
        problem = error.data["what"]
    return request if problem is None else _invalid(name, epoch_value, problem, at_value)


def _is_epoch(value: Any) -> bool:
    return type(value) is int and 1 <= value <= _LAST_EPOCH


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= _LATEST
