"""The mailbox of one process of a deployment: its own outbox, and the messages in other outboxes (W3, W15, W25).

A JobMaster and its workers communicate only through the storage. The journal and the subtask logs have everything that
must not be lost. An outbox is a small object that its process replaces. Its content:

* the commands and reports that their receivers have not read, in order,
* the number of the last message that the process has read from each sender, and
* a beat that shows that the process is alive.

A message stays until it was read, so no message is lost while both processes live. After the death of a process its
unread messages are not needed. Workers report everything again to a new JobMaster (``worker.Worker``). A new worker
reads in the log what the previous attempt has published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ckpt.coordinator.errors import UnknownMessageError
from airflow_provider_ckpt.coordinator.protocol import wire
from airflow_provider_ckpt.coordinator.protocol.commands import Command
from airflow_provider_ckpt.coordinator.protocol.reports import TaskReport
from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.json_form import read_field, reader, to_json
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.remote.timing import BEAT
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document
from airflow_provider_ckpt.storage.errors import MalformedDocumentError, ObjectNotFoundError
from airflow_provider_ckpt.storage.layout import deployment_path
from airflow_provider_ckpt.storage.refusal import refused_as
from airflow_provider_ckpt.storage.storage import Storage

KIND = "outbox"
VERSION = 1
Message = TaskReport | Command


@dataclass(frozen=True)
class Outbox:
    """The content of one process's outbox.

    Args:
        beat: A number that increases with each write.
        read: Sender → number of its last message that this process has read.
        left: Reason why the process no longer writes; None while it writes.
    """

    process: Worker
    beat: int = 0
    messages: Mapping[str, tuple[tuple[int, Message], ...]] = field(default_factory=dict)
    """Receiver → (number, message) pairs, ascending. Numbers begin with 1 for each receiver."""
    read: Mapping[str, int] = field(default_factory=dict)
    left: str | None = None
    subtasks: frozenset[SubtaskId] = frozenset()
    """The subtasks of a worker, which never change. Empty for a JobMaster."""

    def after(self, receiver: str, number: int) -> Iterable[tuple[int, Message]]:
        """Return the (number, message) pairs for ``receiver`` with numbers above ``number``."""
        return [numbered for numbered in self.messages.get(receiver, ()) if numbered[0] > number]


def write_outbox(storage: Storage, path: str, outbox: Outbox) -> None:
    messages = {
        receiver: [{"number": number, "message": wire.to_json(message)} for number, message in numbered]
        for receiver, numbered in outbox.messages.items()
    }
    document = encode_document(
        KIND,
        VERSION,
        process=to_json(outbox.process),
        beat=outbox.beat,
        read=dict(outbox.read),
        left=outbox.left,
        messages=messages,
        subtasks=sorted(outbox.subtasks),
    )
    storage.replace(path, document)


def read_outbox(storage: Storage, path: str) -> Outbox | None:
    """Return an outbox; None if it does not exist.

    Raises MalformedDocumentError, NewerFormatError, and the storage's errors.
    """
    try:
        data = storage.read(path)
    except ObjectNotFoundError:
        return None
    uri = storage.full_uri(path)
    with refused_as(lambda problem: MalformedDocumentError(uri=uri, what=KIND, reason=problem)):
        body = decode_document(data, KIND, VERSION, uri=uri)
        queues = read_field(body, "messages", reader(Mapping[str, list[Mapping[str, Any]]]))
        return Outbox(
            read_field(body, "process", reader(Worker)),
            read_field(body, "beat", reader(Count)),
            {receiver: tuple(map(_numbered, queue)) for receiver, queue in queues.items()},
            read_field(body, "read", reader(Mapping[str, Count])),
            read_field(body, "left", reader(str | None)),
            read_field(body, "subtasks", reader(frozenset[SubtaskId])),
        )


def _numbered(body: Mapping[str, Any]) -> tuple[int, Message]:
    message = read_field(body, "message", reader(Mapping[str, Any]))
    try:
        return read_field(body, "number", reader(Count)), wire.from_json(message)
    except UnknownMessageError as error:
        raise UnknownFormError(what=str(error)) from error


def master_name(epoch: int) -> str:
    return f"master-{epoch:04d}"


def worker_name(nonce: str) -> str:
    """Return the name of a worker's outbox before the job has a JobMaster (see :meth:`Mailbox.follow_master`)."""
    return f"worker-{nonce}"


class Mailbox:
    """The mailbox of the process ``name``. Not thread-safe.

    The next :meth:`deliver` writes a posted message. The message stays in the outbox until the receiver's outbox
    acknowledges it. A receiver reads each message only one time, because :meth:`receive` records the number of the last
    message that it returned. The next :meth:`deliver` acknowledges the messages.

    Args:
        deployment: The epoch in which the job was prepared for workers.
        clock: Returns seconds that never decrease.
        subtasks: The subtasks of a worker; empty for a JobMaster.
    """

    def __init__(
        self,
        storage: Storage,
        job_id: str,
        deployment: int,
        name: str,
        process: Worker,
        clock: Callable[[], float],
        subtasks: Iterable[SubtaskId] = (),
    ) -> None:
        self.name = self._own_name = name
        self._former: list[str] = []
        """Previous names of this process. Their outboxes are deleted after the next write."""
        self._storage, self._folder = storage, deployment_path(job_id, deployment)
        self._process, self._clock = process, clock
        self._subtasks = frozenset(subtasks)
        self._queues: dict[str, list[tuple[int, Message]]] = {}
        self._posted: dict[str, int] = {}
        self._read: dict[str, int] = {}
        self._beat = 0
        self._left: str | None = None
        self._is_changed, self._due = True, 0.0

    def follow_master(self, epoch: int) -> None:
        """Continue under a new name, because the JobMaster of ``epoch`` has taken over the job.

        The new name is needed because a previous JobMaster may still delete the outbox under the old name. Later
        JobMasters do not read that outbox. Messages to previous JobMasters and read positions in their outboxes are
        discarded, because a worker may outlive many JobMasters.
        """
        for by_peer in (self._queues, self._posted, self._read):
            by_peer.clear()
        if self._beat:
            self._former.append(self.name)
        self.name = f"{self._own_name}-{epoch:04d}"
        self._is_changed = True

    def post(self, receiver: str, message: Message) -> None:
        number = self._posted.get(receiver, 0) + 1
        self._posted[receiver] = number
        self._queues.setdefault(receiver, []).append((number, message))
        self._is_changed = True

    def forget(self, receiver: str) -> None:
        self._queues.pop(receiver, None)
        self._is_changed = True

    def delete_outbox(self, sender: str) -> None:
        """Delete the outbox of a sender that has probably ended, after all its messages were read.

        Otherwise every later poll would read the outboxes of all dead workers. A sender that is alive writes its outbox
        again with its next beat. The calling JobMaster must have checked that it still owns the job after it read the
        outbox. Messages to a later JobMaster are under a later name (:meth:`follow_master`).
        """
        self.forget(sender)
        self._read.pop(sender, None)
        self._storage.delete(f"{self._folder}/{sender}.json")

    def leave(self, why: str) -> None:
        """Announce that the next outbox is the last one. ``why`` is the reason, for the logs of other processes."""
        self._left = why
        self._is_changed = True

    def receive(self, sender: str) -> tuple[Outbox | None, list[Message]]:
        """Return the current outbox of ``sender`` and its new messages, in order. Without an outbox return (None, []).

        Raises the storage's errors, and the errors of :func:`read_outbox`.
        """
        outbox = read_outbox(self._storage, f"{self._folder}/{sender}.json")
        if outbox is None:
            return None, []
        self._drop_acknowledged(sender, outbox.read.get(self.name, 0))
        new = list(outbox.after(self.name, self._read.get(sender, 0)))
        if new:
            self._read[sender] = new[-1][0]
            self._is_changed = True
        return outbox, [message for _, message in new]

    def senders(self, kind: str) -> list[str]:
        """Return the names of the deployment's processes that begin with ``kind`` (such as ``worker-``).

        Costs one LIST.
        """
        names = [name.removesuffix(".json") for name in self._storage.list(self._folder) if name.endswith(".json")]
        return sorted(name for name in names if name.startswith(kind))

    def deliver(self) -> None:
        """Write the outbox if its content has changed or its beat is due.

        Raises the storage's errors. The next call then tries again.
        """
        if self._is_changed or self._clock() >= self._due:
            self._write()
        while self._former:  # after the new outbox is written, so that a reader always finds an outbox
            self._storage.delete(f"{self._folder}/{self._former[-1]}.json")
            self._former.pop()

    def _write(self) -> None:
        self._beat += 1
        messages = {receiver: tuple(queue) for receiver, queue in self._queues.items() if queue}
        outbox = Outbox(self._process, self._beat, messages, dict(self._read), self._left, self._subtasks)
        write_outbox(self._storage, f"{self._folder}/{self.name}.json", outbox)
        self._is_changed, self._due = False, self._clock() + BEAT

    def unread_count(self, receiver: str) -> int:
        return len(self._queues.get(receiver, ()))

    def is_acknowledged(self, receiver: str) -> bool:
        """Return True if ``receiver`` has acknowledged every message posted to it."""
        return not self._queues.get(receiver)

    def _drop_acknowledged(self, receiver: str, number: int) -> None:
        queue = self._queues.get(receiver)
        if queue and queue[0][0] <= number:
            self._queues[receiver] = [numbered for numbered in queue if numbered[0] > number]
            self._is_changed = True
