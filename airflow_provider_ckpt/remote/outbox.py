"""The outbox of one process of a deployment: a small object that the process replaces (W3, W15, W25).

A JobMaster and its workers communicate only through the storage. The journal and the subtask logs hold everything that
must not be lost. The outbox holds current messages: commands and reports that their receivers have not read, in order.
It also holds the process's read positions, and a beat that shows that the process is alive.

A message stays until it was read, so no message is lost while both processes live. No message is needed after one of
them has died. Workers report everything again to a new JobMaster (``worker.Worker``). A new worker begins the next
attempt of its subtask, and reads in the log how far the previous attempt came.
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
    """The content of one process's outbox.

    Args:
        process: The process that writes it.
        beat: A number that grows with each write.
        read: Sender → number of its last message that this process has read.
        left: Why the process has stopped writing; None while it writes.
    """

    process: Worker
    beat: int = 0
    messages: Mapping[str, tuple[tuple[int, Message], ...]] = field(default_factory=dict)
    """Receiver -> (number, message), ascending; numbers begin with 1 for each receiver."""
    read: Mapping[str, int] = field(default_factory=dict)
    left: str | None = None
    subtasks: frozenset[SubtaskId] | None = None
    """The subtasks that a worker runs; they never change. None for a JobMaster."""

    def behind(self, receiver: str, number: int) -> Iterable[tuple[int, Message]]:
        """Return the messages for ``receiver`` with numbers above ``number``."""
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
    """Read an outbox; return None if it does not exist.

    Raises MalformedDocumentError, NewerFormatError, and the storage's errors.
    """
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
