"""The JobMaster's gateway to tasks that run in separate workers."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from airflow_provider_ckpt.coordinator.protocol.commands import Command
from airflow_provider_ckpt.coordinator.protocol.reports import (
    Report,
    SubtaskDone,
    SubtaskFailed,
    SubtaskOpened,
    TaskReport,
)
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.remote.heartbeat_monitor import HeartbeatMonitor
from airflow_provider_ckpt.remote.mailbox import Mailbox, Outbox
from airflow_provider_ckpt.remote.unassigned_subtasks import UnassignedSubtasks

log = logging.getLogger(__name__)

LIST_EVERY = 1.0
"""Seconds between two listings for new workers while a subtask has no worker."""
LIST_SELDOM = 10
"""Number of polls between two listings while every subtask has a worker. The pause is at least LIST_EVERY seconds.

A LIST costs as much as a dozen reads.
"""
_SLOWER = 1.3


class _Host:
    """A worker from the JobMaster's point of view. ``attempts``: subtask → its current attempt in the worker."""

    def __init__(self, name: str, lost_after: float, longest_gap: float, first_limit: float | None) -> None:
        self.name = name
        self.liveness = HeartbeatMonitor(lost_after, longest_gap, first_limit)
        self.attempts: dict[SubtaskId, AttemptId] = {}
        self.is_lost = False
        self.outbox: Outbox | None = None
        """The worker's last outbox that a poll has read; None before the first poll."""


class RemoteGateway:
    """The JobMaster's gateway to workers, through the storage.

    Workers use the epoch of their deployment in attempts and barriers. In every message the gateway converts between
    that epoch and the JobMaster's epoch.

    Args:
        epoch: The epoch of the JobMaster.
        deployment: The epoch of the workers.
        post: Puts a report into the JobMaster's inbox.
        poll_interval: Seconds between two polls of the workers.
        lost_after: Seconds without a new beat after which a worker counts as lost. The gateway does not restart
            workers.
        unassigned: The record of subtasks without a worker. The gateway updates it.
        check_fenced: Raises FencedError if this JobMaster no longer owns the journal. Called before an outbox is
            deleted, because a later JobMaster may have to read it.
        previous_lost_after: The limit that replaces ``lost_after`` for workers found at the start, until their beat
            first changes; None for ``lost_after``.
        max_poll_interval: Maximum seconds between two polls. The interval increases up to this maximum while no message
            arrives. A value below ``poll_interval`` is ignored.
        turns: A context that is entered for each poll.
        clock: Returns seconds that never decrease.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        epoch: int,
        deployment: int,
        post: Callable[[TaskReport], None],
        *,
        poll_interval: float,
        lost_after: float,
        unassigned: UnassignedSubtasks,
        check_fenced: Callable[[], None],
        previous_lost_after: float | None = None,
        max_poll_interval: float = 0.0,
        turns: AbstractContextManager[object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mailbox, self._epoch, self._deployment, self._post = mailbox, epoch, deployment, post
        self._interval, self._lost_after, self._clock = poll_interval, lost_after, clock
        self._longest = max(poll_interval, max_poll_interval)
        self._previous_lost_after = previous_lost_after
        self._unassigned, self._ownership = unassigned, turns or nullcontext()
        self._check_fenced = check_fenced
        self._hosts: dict[str, _Host] = {}
        self._host_of: dict[tuple[SubtaskId, AttemptId], str] = {}
        self._listed_at = -math.inf
        self._lock = threading.Lock()
        self._wake, self._closing = threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="ckpt-workers", daemon=True)

    # -- the JobMaster's loop

    def start(self) -> None:
        self._thread.start()

    def send(self, *commands: Command) -> None:
        """Send each command to the worker that runs its attempt. Discard a command if no worker runs the attempt."""
        with self._lock:
            for command in commands:
                host = self._host_of.get((command.subtask, command.attempt))
                if host is not None:
                    self._mailbox.post(host, replace(command, epoch=self._deployment))
        self._wake.set()

    def on_restarted(self, subtask: SubtaskId, attempt: AttemptId) -> None:
        """Do nothing, because the worker has already reported the restart."""

    def pull_inputs(self, consumers: Iterable[SubtaskId]) -> None:
        """Do nothing, because workers read the logs of their inputs themselves."""

    def poll_changes(self) -> None:
        """Report subtasks without a worker. Raise the error of the polling thread if that thread has failed."""
        if self._failure is not None:
            raise self._failure
        self._unassigned.check(self._clock())

    def stop(self, *, after_batch: bool) -> None:
        """Stop polling, and announce that the run is over, so that the workers read the journal.

        The JobMaster does not wait for the workers. If they still write, the next attempts of the subtasks fence them.
        """
        self._closing.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()
        with self._lock:
            self._mailbox.leave("the run is over")
            try:
                self._mailbox.deliver()
            except TransientError as error:
                log.warning(
                    "the workers were not notified that the run is over, they will read it in the journal: %s", error
                )

    # -- its own thread

    def _run(self) -> None:
        try:
            pause = self._interval
            while not self._closing.is_set():
                with self._ownership:
                    has_messages = self.poll()
                pause = self._interval if has_messages else min(self._longest, pause * _SLOWER)
                if self._wake.wait(pause):  # answer new messages soon
                    pause = self._interval
                self._wake.clear()
        except BaseException as error:
            self._failure = error

    def poll(self) -> bool:
        """Read the outboxes of all workers, and write the JobMaster's outbox.

        Return True if a worker has sent a message. After a transient error of the storage the next poll tries again.
        """
        has_messages = False
        try:
            self._find_hosts()
            for host in list(self._hosts.values()):
                has_messages = self._poll_host(host) or has_messages
            with self._lock:
                self._mailbox.deliver()
        except TransientError as error:
            log.warning("the workers could not be polled, the next poll tries again: %s", error)
        return has_messages

    def _find_hosts(self) -> None:
        now = self._clock()
        pause = LIST_EVERY if self._unassigned.has_any else max(LIST_EVERY, LIST_SELDOM * self._interval)
        if now < self._listed_at + pause:
            return
        first_limit = self._previous_lost_after if self._listed_at == -math.inf else None
        for name in self._mailbox.senders("worker-"):
            if name not in self._hosts:
                self._hosts[name] = _Host(name, self._lost_after, max(4 * self._longest, 1.0), first_limit)
        self._listed_at = now

    def _poll_host(self, host: _Host) -> bool:
        with self._lock:
            outbox, messages = self._mailbox.receive(host.name)
        if outbox is None:
            # Another process has deleted the outbox, or the worker now writes under another name. A living worker
            # writes it again with its next beat; a dead one counts as silent.
            if host.outbox is not None and host.attempts:
                self._check_liveness(host, host.outbox)
            else:
                del self._hosts[host.name]
            return False
        host.outbox = outbox
        for message in messages:
            self._receive(host, message)
        self._check_liveness(host, outbox)
        return bool(messages)

    def _receive(self, host: _Host, message: object) -> None:
        if not isinstance(message, Report):
            return  # workers send only reports for the coordinator
        if isinstance(message, (SubtaskOpened, SubtaskFailed)):
            with self._lock:
                previous = host.attempts.get(message.subtask)
                if previous is not None and previous < message.attempt:
                    self._host_of.pop((message.subtask, previous), None)  # the previous attempt gets no more commands
                host.attempts[message.subtask] = message.attempt
                self._host_of[message.subtask, message.attempt] = host.name
            self._unassigned.assign(message.subtask, message.attempt)
        if isinstance(message, SubtaskDone):
            host.attempts.pop(message.subtask, None)
        if isinstance(message, SubtaskFailed):  # a lost worker does not end the run, because another worker may come
            message = replace(message, driver_is_lost=False)
        self._post(replace(message, epoch=self._epoch))

    def _check_liveness(self, host: _Host, outbox: Outbox) -> None:
        host.liveness.observe(outbox.beat, self._clock())
        if outbox.left is not None:
            with self._lock:
                self._host_of = {task: name for task, name in self._host_of.items() if name != host.name}
            self._report_lost(host, f"its worker ({outbox.process}) has left: {outbox.left}")
            self._delete_outbox(host)
        elif host.liveness.is_lost and not host.is_lost:
            host.is_lost = True
            silent = f"has given no sign of life for {host.liveness.limit:g} s"
            self._report_lost(host, f"its worker ({outbox.process}) {silent}")
        elif not host.liveness.is_lost:
            host.is_lost = False
        elif not any(self._unassigned.is_current(*task) for task in host.attempts.items()):
            self._delete_outbox(host)  # other workers now run its subtasks

    def _delete_outbox(self, host: _Host) -> None:
        """Delete the outbox of a worker. Its messages must have been read.

        Raises FencedError if this JobMaster no longer owns the job.
        """
        self._check_fenced()
        with self._lock:
            self._mailbox.delete_outbox(host.name)
            self._host_of = {task: name for task, name in self._host_of.items() if name != host.name}
        del self._hosts[host.name]

    def _report_lost(self, host: _Host, cause: str) -> None:
        """Report the failure of every attempt of a worker.

        If the worker is still alive, it receives a restart command, or finds that another worker owns its subtask.
        """
        for subtask, attempt in list(host.attempts.items()):
            self._unassigned.unassign(subtask, attempt, self._clock())
            self._post(SubtaskFailed(self._epoch, subtask, attempt, cause, worker_is_lost=True, stack_trace=cause))
