"""One process's side of what the processes of a deployment say to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.remote.outbox import Message, Outbox, read_outbox, write_outbox
from airflow_provider_ckpt.remote.timing import BEAT
from airflow_provider_ckpt.storage.layout import deployment_path
from airflow_provider_ckpt.storage.storage import Storage


def master_name(epoch: int) -> str:
    return f"master-{epoch:04d}"


def worker_name(nonce: str) -> str:
    """Of a worker that no JobMaster has been told of yet, see :meth:`Correspondence.speak_to`."""
    return f"worker-{nonce}"


class Correspondence:
    """Of the process ``name``, in the deployment of epoch ``deployment``. Not thread-safe. ``clock``: seconds that
    never go back. ``subtasks``: what it runs, if it is a worker.

    A message that was posted is written with the next :meth:`deliver`, and stays until its receiver says in its own
    outbox that it was read. A receiver reads a message once: what :meth:`receive` has returned is acknowledged with the
    next delivery.
    """

    def __init__(
        self,
        storage: Storage,
        job_id: str,
        deployment: int,
        name: str,
        process: Worker,
        clock: Callable[[], float],
        subtasks: Iterable[SubtaskId] | None = None,
    ) -> None:
        self.name = self._own_name = name
        self._former: list[str] = []
        """Names under which it has written, and does no longer."""
        self._storage, self._folder = storage, deployment_path(job_id, deployment)
        self._process, self._clock = process, clock
        self._subtasks = None if subtasks is None else frozenset(subtasks)
        self._queues: dict[str, list[tuple[int, Message]]] = {}
        self._posted: dict[str, int] = {}
        self._read: dict[str, int] = {}
        self._beat = 0
        self._left: str | None = None
        self._is_changed, self._due = True, 0.0

    def speak_to(self, epoch: int) -> None:
        """The JobMaster of ``epoch`` has the job by now: this process writes under a name that did not exist before it
        had, and nothing any more for the ones before. So what one of these deletes yet, having looked for the last
        time whether it has the job, is of no use to its successors. Nor is what was read of them: a worker may
        live through many."""
        for of_others in (self._queues, self._posted, self._read):
            of_others.clear()
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
        """Nothing that was posted to it is of any use."""
        self._queues.pop(receiver, None)
        self._is_changed = True

    def bury(self, sender: str) -> None:
        """It writes no more, as far as is known, and all that it had to say was read: delete it, as one that dies every
        hour would be read for ever else. One that lives after all comes back with its next beat. By a JobMaster that
        has seen, after it had read it, that it has the job still: whatever is written for a later one has a name that
        came later (:meth:`speak_to`)."""
        self.forget(sender)
        self._read.pop(sender, None)
        self._storage.delete(f"{self._folder}/{sender}.json")

    def leave(self, why: str) -> None:
        """This process writes no more after the next delivery."""
        self._left = why
        self._is_changed = True

    def receive(self, sender: str) -> tuple[Outbox | None, list[Message]]:
        """What ``sender`` shows now, and of that what is new to this process, in order. Raises the storage's errors,
        and what :func:`read_outbox` raises."""
        outbox = read_outbox(self._storage, f"{self._folder}/{sender}.json")
        if outbox is None:
            return None, []
        self._acknowledged(sender, outbox.read.get(self.name, 0))
        new = list(outbox.behind(self.name, self._read.get(sender, 0)))
        if new:
            self._read[sender] = new[-1][0]
            self._is_changed = True
        return outbox, [message for _, message in new]

    def senders(self, kind: str) -> list[str]:
        """The processes of the deployment whose names begin so (``worker-``); one LIST."""
        names = [name.removesuffix(".json") for name in self._storage.list(self._folder) if name.endswith(".json")]
        return sorted(name for name in names if name.startswith(kind))

    def deliver(self) -> None:
        """Write the outbox if it says something new, or the beat is due. Raises the storage's errors: then it is still
        to be delivered."""
        if self._is_changed or self._clock() >= self._due:
            self._write()
        while self._former:  # behind what is written in its place: who misses the one looks for others
            self._storage.delete(f"{self._folder}/{self._former[-1]}.json")
            self._former.pop()

    def _write(self) -> None:
        self._beat += 1
        messages = {receiver: tuple(queue) for receiver, queue in self._queues.items() if queue}
        outbox = Outbox(self._process, self._beat, messages, dict(self._read), self._left, self._subtasks)
        write_outbox(self._storage, f"{self._folder}/{self.name}.json", outbox)
        self._is_changed, self._due = False, self._clock() + BEAT

    def waiting(self, receiver: str) -> int:
        """Messages that it has not read, as far as is known."""
        return len(self._queues.get(receiver, ()))

    def is_heard(self, receiver: str) -> bool:
        """Whether it has read all that was posted to it, as far as is known."""
        return not self._queues.get(receiver)

    def _acknowledged(self, receiver: str, number: int) -> None:
        queue = self._queues.get(receiver)
        if queue and queue[0][0] <= number:
            self._queues[receiver] = [one for one in queue if one[0] > number]
            self._is_changed = True
