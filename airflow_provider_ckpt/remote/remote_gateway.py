"""The tasks of a job that are in workers of their own, seen from the JobMaster."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from airflow_provider_ckpt.coordinator.commands import Command
from airflow_provider_ckpt.coordinator.reports import (
    DataAvailable,
    SubtaskDone,
    SubtaskFailed,
    SubtaskFenced,
    SubtaskOpened,
    TaskReport,
)
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.remote.correspondence import Correspondence
from airflow_provider_ckpt.remote.liveness import Liveness
from airflow_provider_ckpt.remote.outbox import Outbox
from airflow_provider_ckpt.remote.vacancies import Vacancies

log = logging.getLogger(__name__)

LIST_EVERY = 1.0
"""Seconds between two looks for workers that have come, while some subtask has none."""
LIST_SELDOM = 10
"""Looks at the workers between these otherwise, if that is longer: a LIST costs as much as a dozen reads, and who comes
then is another one for a subtask that has one."""
_SLOWER = 1.3


class _Host:
    """A worker, as far as it is known. ``attempts``: those that it has begun, the current one of each subtask."""

    def __init__(self, name: str, lost_after: float, longest_look: float, first_limit: float | None) -> None:
        self.name = name
        self.liveness = Liveness(lost_after, longest_look, first_limit)
        self.attempts: dict[SubtaskId, AttemptId] = {}
        self.is_lost = False
        self.shown: Outbox | None = None
        """What it showed last."""


class RemoteGateway:
    """The form over the storage of the JobMaster's gateway. The workers speak of their deployment's epoch, which is
    that of their attempts, and of their barriers; the JobMaster of its own: one is put for the other here.

    ``correspondence``: of the JobMaster; ``epoch``: its own; ``deployment``: that of the workers. ``post``: its inbox.
    ``look_interval``: seconds between two looks at the workers; while nothing is said these grow to
    ``longest_interval``, if that is longer; ``lost_after``: seconds without a sign of life after
    which nobody runs what a worker ran; ``previous_after``: until the first one of a worker that was there already,
    if that is another time. Whether anybody begins it again is not for here: it need not be the same
    process; ``vacancies`` tells of it. ``check_fenced``: the journal's, asked before anything is deleted, which a later
    JobMaster may have to read. ``turns``: entered for each look. ``clock``: seconds that never go back.
    """

    def __init__(
        self,
        correspondence: Correspondence,
        epoch: int,
        deployment: int,
        post: Callable[[TaskReport], None],
        *,
        look_interval: float,
        lost_after: float,
        vacancies: Vacancies,
        check_fenced: Callable[[], None],
        previous_after: float | None = None,
        longest_interval: float = 0.0,
        turns: AbstractContextManager[object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._correspondence, self._epoch, self._deployment, self._post = correspondence, epoch, deployment, post
        self._interval, self._lost_after, self._clock = look_interval, lost_after, clock
        self._longest = max(look_interval, longest_interval)
        self._previous_after = previous_after
        self._vacancies, self._turns = vacancies, turns or nullcontext()
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
        """To whoever has begun the attempt. One that nobody has begun, or that nobody runs any more, hears nothing: its
        next one is told anew."""
        with self._lock:
            for command in commands:
                host = self._host_of.get((command.subtask, command.attempt))
                if host is not None:
                    self._correspondence.post(host, replace(command, epoch=self._deployment))
        self._wake.set()

    def begun(self, subtask: SubtaskId, attempt: AttemptId) -> None:
        """Nothing: who has begun it has told so."""

    def pull_inputs(self, consumers: Iterable[SubtaskId]) -> None:
        """Nothing: workers read on in the logs by themselves."""

    def look_around(self) -> None:
        """Raises what the look at the workers has failed with for good."""
        if self._failure is not None:
            raise self._failure
        self._vacancies.look(self._clock())

    def stop(self, *, after_batch: bool) -> None:
        """How the job ended is in the journal, which the workers read; here they are told to look. They end by
        themselves, and nobody waits for them: what they write yet is fenced when somebody begins again."""
        self._closing.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()
        with self._lock:
            self._correspondence.leave("the run is over")
            try:
                self._correspondence.deliver()
            except TransientError as error:
                log.warning("the workers were not told that the run is over, they read it in the journal: %s", error)

    # -- its own thread

    def _run(self) -> None:
        try:
            pause = self._interval
            while not self._closing.is_set():
                with self._turns:
                    heard = self.look()
                pause = self._interval if heard else min(self._longest, pause * _SLOWER)
                if self._wake.wait(pause):  # what was said is answered soon
                    pause = self._interval
                self._wake.clear()
        except BaseException as error:
            self._failure = error

    def look(self) -> bool:
        """Read what the workers say, and say what there is to say. What may go away is tried again by the next look.
        Whether any worker has said anything."""
        heard = False
        try:
            self._find_hosts()
            for host in list(self._hosts.values()):
                heard = self._look_at(host) or heard
            with self._lock:
                self._correspondence.deliver()
        except TransientError as error:
            log.warning("the workers could not be looked at: %s", error)
        return heard

    def _find_hosts(self) -> None:
        now = self._clock()
        pause = LIST_EVERY if self._vacancies.is_any else max(LIST_EVERY, LIST_SELDOM * self._interval)
        if now < self._listed_at + pause:
            return
        first = self._previous_after if self._listed_at == -math.inf else None
        for name in self._correspondence.senders("worker-"):
            if name not in self._hosts:
                self._hosts[name] = _Host(name, self._lost_after, max(4 * self._longest, 1.0), first)
        self._listed_at = now

    def _look_at(self, host: _Host) -> bool:
        with self._lock:
            outbox, messages = self._correspondence.receive(host.name)
        if outbox is None:
            # Somebody has deleted it, or it writes under another name by now. One that lives comes back with its next
            # beat; one that does not is silent
            if host.shown is not None and host.attempts:
                self._judge(host, host.shown)
            else:
                del self._hosts[host.name]
            return False
        host.shown = outbox
        for message in messages:
            self._hear(host, message)
        self._judge(host, outbox)
        return bool(messages)

    def _hear(self, host: _Host, message: object) -> None:
        if not isinstance(message, TaskReport) or isinstance(message, (DataAvailable, SubtaskFenced)):
            return  # no worker says these to a JobMaster
        if isinstance(message, (SubtaskOpened, SubtaskFailed)):
            with self._lock:
                former = host.attempts.get(message.subtask)
                if former is not None and former < message.attempt:
                    self._host_of.pop((message.subtask, former), None)  # nobody has a word for it any more
                host.attempts[message.subtask] = message.attempt
                self._host_of[message.subtask, message.attempt] = host.name
            self._vacancies.taken(message.subtask, message.attempt)
        if isinstance(message, SubtaskDone):
            host.attempts.pop(message.subtask, None)
        if isinstance(message, SubtaskFailed):  # a worker that is lost is not the run's end: another one may come
            message = replace(message, driver_is_lost=False)
        self._post(replace(message, epoch=self._epoch))

    def _judge(self, host: _Host, outbox: Outbox) -> None:
        host.liveness.see(outbox.beat, self._clock())
        if outbox.left is not None:
            with self._lock:
                self._host_of = {one: name for one, name in self._host_of.items() if name != host.name}
            self._give_up(host, f"its worker ({outbox.process}) has left: {outbox.left}")
            self._bury(host)
        elif host.liveness.is_lost and not host.is_lost:
            host.is_lost = True
            silent = f"has given no sign of life for {host.liveness.limit:g} s"
            self._give_up(host, f"its worker ({outbox.process}) {silent}")
        elif not host.liveness.is_lost:
            host.is_lost = False
        elif not any(self._vacancies.is_current(*each) for each in host.attempts.items()):
            self._bury(host)  # others run by now what it ran

    def _bury(self, host: _Host) -> None:
        """Behind the last look at what it shows: if this JobMaster has the job still, that was not for a later one, and
        what will be has another name. Raises FencedError."""
        self._check_fenced()
        with self._lock:
            self._correspondence.bury(host.name)
            self._host_of = {task: name for task, name in self._host_of.items() if name != host.name}
        del self._hosts[host.name]

    def _give_up(self, host: _Host, cause: str) -> None:
        """What it runs has failed. If it lives after all it is told to begin again, or finds that another one has."""
        for subtask, attempt in list(host.attempts.items()):
            self._vacancies.left(subtask, attempt, self._clock())
            self._post(SubtaskFailed(self._epoch, subtask, attempt, cause, worker_is_lost=True, stack_trace=cause))
