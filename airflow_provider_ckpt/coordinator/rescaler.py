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

from airflow_provider_ckpt.coordinator.commands import RestartSubtask
from airflow_provider_ckpt.coordinator.effects import Append
from airflow_provider_ckpt.coordinator.failover import Failover
from airflow_provider_ckpt.coordinator.job_lifecycle import JobLifecycle
from airflow_provider_ckpt.coordinator.messages import RescaleRequested
from airflow_provider_ckpt.coordinator.parts import Parts
from airflow_provider_ckpt.coordinator.rescaling import RescaleInProgress
from airflow_provider_ckpt.coordinator.subtask_table import SubtaskStatus
from airflow_provider_ckpt.journal.events import GraphChanged, RequestAnswered
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.request_outcome import RequestOutcome, RequestResult
from airflow_provider_ckpt.model.subtask_id import SubtaskId

KIND = "rescale"


class Rescaler:
    def __init__(self, parts: Parts, job: JobLifecycle, failover: Failover) -> None:
        self._parts, self._job, self._failover = parts, job, failover

    def requested(self, message: RescaleRequested, now: float) -> None:
        refusal = self._refusal(message)
        if refusal is not None:
            self._answer(message.request, RequestOutcome.refused(refusal), now)
            return
        uid, wanted = message.uid, message.parallelism
        before = self._readers(uid)
        change = self._parts.rescaling.begin(message.request, uid, wanted, max(0, wanted - len(before)))
        self._parts.out.append(Append(GraphChanged(change.number, change.graph, {uid: wanted}, now)))
        if change.new:
            self._parts.splits.hold(uid)
            self._parts.requests.note(message.request, KIND)
            self._answer(message.request, RequestOutcome(RequestResult.ACCEPTED), now)
        else:
            self._parts.graph.change(change.number, change.graph)
            self._parts.splits.retake(uid, before[:wanted])
            self._complete(change, now)

    def advance(self, now: float) -> None:
        """Does the next step that can be done as things stand."""
        change = self._parts.rescaling.current
        if change is None:
            return
        if not change.has_begun:
            self._begin_if_quiet(change, now)
        elif all(self._runs(subtask) for subtask in change.new):
            self._complete(change, now)

    # -- what can be refused

    def _refusal(self, message: RescaleRequested) -> str | None:
        """Why it cannot be done; the job goes on as it is."""
        parts, uid = self._parts, message.uid
        current, by_split = parts.rescaling.current, [v.uid for v in parts.graph.now.vertices if v.splits]
        if self._job.is_ending or parts.requests.stop is not None or parts.requests.draining:
            return "the job is being ended"
        if current is not None:
            return f"{current.uid} is being rescaled to {current.parallelism} (request {current.request})"
        if (other := parts.reconfiguring.current) is not None:
            return f"reconfiguration {other.number} is in progress (request {other.request})"
        if uid not in by_split:
            known = ", ".join(by_split) or "none"
            return f"{uid} is no source with splits, and nothing else can be rescaled while it runs; there are: {known}"
        if message.parallelism < 1:
            return f"{message.parallelism} is no number of subtasks, which is 1 or more"
        if any(edge.exchange == "pointwise" for edge in parts.graph.now.outputs(uid)):
            return f"what reads {uid} reads it pointwise"
        if not parts.splits.is_open(uid):
            return f"all splits of {uid} are handed out"
        if message.parallelism > (unread := parts.splits.unread(uid)):
            return f"{message.parallelism} are more than the {unread} splits of {uid} that are left to read"
        return None

    # -- steps

    def _begin_if_quiet(self, change: RescaleInProgress, now: float) -> None:
        """A checkpoint that is pending was planned without them; a stop comes first."""
        parts = self._parts
        busy = parts.cycle.pending is not None or bool(parts.pauses.current)
        if busy or parts.requests.stop is not None or self._job.is_ending or not parts.rescaling.is_known():
            return
        readers = self._readers(change.uid)
        parts.graph.change(change.number, change.graph)
        for subtask in change.new:
            parts.subtasks.add(subtask, AttemptId.vacant(parts.epoch))
            parts.send(RestartSubtask(*parts.task_id(subtask), 0.0, parts.pauses.plan(subtask)))
            self._failover.awaits(subtask, now)
        parts.splits.retake(change.uid, [*readers, *change.new][: change.parallelism])
        change.has_begun = True

    def _complete(self, change: RescaleInProgress, now: float) -> None:
        self._parts.rescaling.over()
        outcome = RequestOutcome.completed(f"{change.uid} is read by {change.parallelism}")
        self._parts.requests.close_one(change.request)
        self._answer(change.request, outcome, now)

    # -- small things

    def _readers(self, uid: str) -> list[SubtaskId]:
        """Subtasks of the source that can be handed splits."""
        names = self._parts.graph.now.vertex(uid).subtasks
        return [one for one in names if not self._parts.subtasks.has_ended(one) and self._parts.splits.may_read(one)]

    def _runs(self, subtask: SubtaskId) -> bool:
        subtasks = self._parts.subtasks
        return subtasks.has_ended(subtask) or subtasks.status(subtask) is SubtaskStatus.RUNNING

    def _answer(self, request: str | None, outcome: RequestOutcome, now: float) -> None:
        if request is not None:
            self._parts.out.append(Append(RequestAnswered(request, KIND, outcome, now)))
