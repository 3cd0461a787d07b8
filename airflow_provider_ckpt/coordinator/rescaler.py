"""Carries out what somebody asks: that another number of subtasks reads a source with splits, while the job runs.

Splits that are handed out stay where they are; what is left goes to the subtasks that are there then. With fewer, those
that are too many come to their end behind what they have been handed. With more, in this order (R21):

1. The new graph is in the journal. It is the commit point: later runs go by it, whatever becomes of this one.
2. The subtasks that read the source stand still, one after the other, and go on reading the new ones, too. None of
   those has begun: there is nothing that could be missed. The source does not come to its end meanwhile: whoever had
   read it to its end could not be told of more, and the barriers of those would not come to it.
3. With no checkpoint pending, the new subtasks become part of what runs, and begin. Until all of them run, no
   checkpoint is taken (R15).

Partial pause-and-resume is Trisk's; that only those stand still which the change affects, its rule.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_provider_ckpt.coordinator.commands import RestartSubtask
from airflow_provider_ckpt.coordinator.effects import Append
from airflow_provider_ckpt.coordinator.failover import Failover
from airflow_provider_ckpt.coordinator.job_lifecycle import JobLifecycle
from airflow_provider_ckpt.coordinator.messages import RescaleRequested
from airflow_provider_ckpt.coordinator.parts import Parts
from airflow_provider_ckpt.coordinator.requests import in_progress
from airflow_provider_ckpt.coordinator.rescaling import RescaleInProgress
from airflow_provider_ckpt.coordinator.subtask_table import SubtaskStatus
from airflow_provider_ckpt.journal.events import GraphChanged, RequestAnswered, SubtasksAdded
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.request_outcome import RequestOutcome, RequestResult
from airflow_provider_ckpt.model.setting_ranges import problem_of
from airflow_provider_ckpt.model.subtask_id import SubtaskId

KIND = "rescale"


class Rescaler:
    """``has_workers``: the subtasks run in processes of their own. Nobody begins another one for a subtask that is new:
    it runs beside one that reads the source, and who runs that one reads in the journal when it is to begin it.
    """

    def __init__(self, parts: Parts, job: JobLifecycle, failover: Failover, *, has_workers: bool = False) -> None:
        self._parts, self._job, self._failover = parts, job, failover
        self._has_workers = has_workers

    def requested(self, message: RescaleRequested, now: float) -> None:
        refusal = self._refusal(message)
        if refusal is not None:
            self._answer(message.request, RequestOutcome.refused(refusal), now)
            return
        event = self.decide(message.request, {message.uid: message.parallelism}, now)
        self._parts.out.append(Append(event))
        change = self._parts.rescaling.current
        if change is not None and change.new:
            self._parts.requests.note(message.request, KIND)
            self._answer(message.request, RequestOutcome(RequestResult.ACCEPTED), now)

    def decide(
        self, request: str | None, wanted: Mapping[str, int], now: float, aware: Collection[SubtaskId] = ()
    ) -> GraphChanged:
        """``wanted``: source -> how many are to read it, of those of which :meth:`refusal_of` is None. What is returned
        is in the journal before anybody hears of it. ``aware``: see :meth:`Rescaling.begin`."""
        readers = {uid: self.readers(uid) for uid in wanted}
        more = {uid: max(0, number - len(readers[uid])) for uid, number in wanted.items()}
        change = self._parts.rescaling.begin(request, wanted, more, aware)
        for uid in wanted if change.new else ():
            self._parts.splits.hold(uid)
        hosts = self._parts.rescaling.place(change.new, readers) if self._has_workers else {}
        return GraphChanged(change.number, change.graph, wanted, now, hosts)

    def start(self, now: float) -> None:
        """What is new already when this JobMaster begins is part of what it runs.

        Whoever had the job before may have died before all who read a source had heard of its new subtasks. Such a one
        begins again when it hears of this JobMaster, and knows them then. Until all have said that they run the source
        does not come to its end: to one that does not know them it might seem that all of it was read."""
        for uid in self._parts.rescaling.unsettled():
            self._parts.splits.hold(uid)
        if self._has_workers and self._parts.rescaling.waiting:
            self._parts.out.append(Append(SubtasksAdded(self._parts.rescaling.waiting, now)))

    def advance(self, now: float) -> None:
        """Does the next step that can be done as things stand."""
        for uid in self._parts.rescaling.settle():
            self._parts.splits.let_go(uid)
        change = self._parts.rescaling.current
        if change is None:
            return
        if not change.new:
            self._begin(change)
            self._complete(change, now)
        elif not change.has_begun:
            self._begin_if_quiet(change, now)
        elif all(self._runs(subtask) for subtask in change.new):
            self._complete(change, now)

    # -- what can be refused

    def _refusal(self, message: RescaleRequested) -> str | None:
        """Why it cannot be done; the job goes on as it is."""
        parts = self._parts
        if parts.requests.upgrade is not None:
            return in_progress(parts.requests.upgrade)
        if self._job.is_ending or parts.requests.stop is not None or parts.requests.draining:
            return "the job is being ended"
        if (other := parts.reconfiguring.current) is not None:
            return str(other)
        if parts.rescaling.current is not None:
            return str(parts.rescaling.current)
        return self.refusal_of(message.uid, message.parallelism)

    def refusal_of(self, uid: str, parallelism: int) -> str | None:
        """Why the source cannot be read by so many."""
        parts, by_split = self._parts, [one.uid for one in self._parts.graph.now.vertices if one.splits]
        if uid not in by_split:
            known = ", ".join(by_split) or "none"
            return f"{uid} is no source with splits, and nothing else can be rescaled while it runs; there are: {known}"
        if (problem := problem_of("parallelism", parallelism)) is not None:
            return problem
        if any(edge.exchange == "pointwise" for edge in parts.graph.now.outputs(uid)):
            return f"what reads {uid} reads it pointwise"
        if not parts.splits.is_open(uid):
            return f"all splits of {uid} are handed out"
        if parallelism > (unread := parts.splits.unread(uid)):
            return f"{parallelism} are more than the {unread} splits of {uid} that are left to read"
        if not parts.rescaling.is_settled(uid):
            return f"the job was taken over just now, and not all that read {uid} have said where they are; ask again"
        return None

    # -- steps

    def _begin_if_quiet(self, change: RescaleInProgress, now: float) -> None:
        """A checkpoint that is pending was planned without them; a stop comes first."""
        parts = self._parts
        busy = parts.cycle.pending is not None or bool(parts.pauses.current)
        if busy or parts.requests.stop is not None or self._job.is_ending or not parts.rescaling.is_known():
            return
        self._begin(change)
        if self._has_workers:
            parts.out.append(Append(SubtasksAdded(change.new, now)))
        for subtask in change.new:
            parts.subtasks.add(subtask, AttemptId.vacant(parts.subtasks.epoch))
            parts.send(RestartSubtask(*parts.task_id(subtask), 0.0, parts.pauses.plan(subtask)))
            self._failover.awaits(subtask, now)
        change.has_begun = True

    def _begin(self, change: RescaleInProgress) -> None:
        """The graph of now has the new ones, and what is left is for as many as are wanted."""
        parts, readers = self._parts, {uid: self.readers(uid) for uid in change.wanted}
        parts.graph.change(change.number, change.graph)
        for uid, wanted in change.wanted.items():
            new = [one for one in change.new if one.vertex == uid]
            parts.splits.retake(uid, [*readers[uid], *new][:wanted])

    def _complete(self, change: RescaleInProgress, now: float) -> None:
        self._parts.rescaling.over()
        read = ", ".join(f"{uid} is read by {wanted}" for uid, wanted in change.wanted.items())
        outcome = RequestOutcome.completed(read)
        self._parts.requests.close_one(change.request)
        self._answer(change.request, outcome, now)

    # -- small things

    def readers(self, uid: str) -> list[SubtaskId]:
        """Subtasks of the source that can be handed splits: none whose log has its end, said or not."""
        subtasks, splits = self._parts.subtasks, self._parts.splits
        names = self._parts.graph.now.vertex(uid).subtasks
        return [one for one in names if not subtasks.has_ended(one) and splits.may_read(one)]

    def _runs(self, subtask: SubtaskId) -> bool:
        subtasks = self._parts.subtasks
        return subtasks.has_ended(subtask) or subtasks.status(subtask) is SubtaskStatus.RUNNING

    def _answer(self, request: str | None, outcome: RequestOutcome, now: float) -> None:
        if request is not None:
            self._parts.out.append(Append(RequestAnswered(request, KIND, outcome, now)))
