"""What one process of a deployment has to say to others: one small object, which it replaces (W3, W15, W25).

A JobMaster and its workers have nothing between them but the storage. What must not be lost is in the journal and in
the logs of the subtasks before it is said here; here is what is going on: the commands and reports that the other side
has not read yet, in order, how far this side has read, and a beat, by which the other side knows that it lives.

So nothing is lost while both live: a message stays until it was read. Nor is anything lost when one of them dies. A
JobMaster that comes after another one is told again by the workers (``worker.Worker``), and a worker that comes after
another one begins the next attempt of its subtask, which knows by its log what the one before had done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ckpt.coordinator import wire
from airflow_provider_ckpt.coordinator.commands import Command
from airflow_provider_ckpt.coordinator.errors import UnknownMessageError
from airflow_provider_ckpt.coordinator.reports import TaskReport
from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.json_form import read_field, reader, to_json
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document
from airflow_provider_ckpt.storage.errors import MalformedDocumentError, ObjectNotFoundError
from airflow_provider_ckpt.storage.refusal import refused_as
from airflow_provider_ckpt.storage.storage import Storage

KIND = "outbox"
VERSION = 1
_SUBTASKS = "subtasks"
Message = TaskReport | Command


@dataclass(frozen=True)
class Outbox:
    """``beat``: grows with each time that it is written. ``read``: sender -> number of the last message that was read
    of it. ``left``: why the process writes no more; None while it does."""

    process: Worker
    beat: int = 0
    messages: Mapping[str, tuple[tuple[int, Message], ...]] = field(default_factory=dict)
    """Receiver -> (number, message), ascending; numbers begin with 1 for each receiver."""
    read: Mapping[str, int] = field(default_factory=dict)
    left: str | None = None
    subtasks: frozenset[SubtaskId] | None = None
    """What a worker runs, from its beginning to its end. None: it does not tell, as those of versions before."""

    def behind(self, receiver: str, number: int) -> Iterable[tuple[int, Message]]:
        """The messages for ``receiver`` that come after ``number``."""
        return [one for one in self.messages.get(receiver, ()) if one[0] > number]


def write_outbox(storage: Storage, path: str, outbox: Outbox) -> None:
    messages = {
        receiver: [{"number": number, "message": wire.to_json(message)} for number, message in several]
        for receiver, several in outbox.messages.items()
    }
    told = {} if outbox.subtasks is None else {_SUBTASKS: sorted(outbox.subtasks)}
    document = encode_document(
        KIND,
        VERSION,
        process=to_json(outbox.process),
        beat=outbox.beat,
        read=dict(outbox.read),
        left=outbox.left,
        messages=messages,
        **told,
    )
    storage.replace(path, document)


def read_outbox(storage: Storage, path: str) -> Outbox | None:
    """None if there is none yet. Raises MalformedDocumentError, NewerFormatError, and the storage's errors."""
    try:
        data = storage.read(path)
    except ObjectNotFoundError:
        return None
    uri = storage.full_uri(path)
    with refused_as(lambda problem: MalformedDocumentError(uri=uri, what=KIND, reason=problem)):
        body = decode_document(data, KIND, VERSION, uri=uri)
        given = read_field(body, "messages", reader(Mapping[str, list[Mapping[str, Any]]]))
        return Outbox(
            read_field(body, "process", reader(Worker)),
            read_field(body, "beat", reader(Count)),
            {receiver: tuple(map(_numbered, several)) for receiver, several in given.items()},
            read_field(body, "read", reader(Mapping[str, Count])),
            read_field(body, "left", reader(str | None)),
            read_field(body, _SUBTASKS, reader(frozenset[SubtaskId])) if _SUBTASKS in body else None,
        )


def _numbered(body: Mapping[str, Any]) -> tuple[int, Message]:
    message = read_field(body, "message", reader(Mapping[str, Any]))
    try:
        return read_field(body, "number", reader(Count)), wire.from_json(message)
    except UnknownMessageError as error:
        raise UnknownFormError(what=str(error)) from error
