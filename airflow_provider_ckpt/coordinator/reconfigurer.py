"""The execution of a reconfiguration: queries of the running job get other work, other resources or other functions.

Only the affected queries pause, and no longer than necessary. The steps (R21):

1. *prepare*: each affected subtask builds its new query and tries it on a copy of its state, while the old query runs.
   If anything is wrong, the request fails now and nothing has changed.
2. *sync*: while no checkpoint is pending, all of them are commanded to pause after a micro-batch.
3. *update*: when the last one is paused, the change is written into the journal. This is its commit point. Before it
   all subtasks can resume unchanged, and they do if one of them fails. After it the change is final.
4. *resume*: each subtask resumes by itself. If its state is repartitioned, it does so in its next attempt, which makes
   the new state from a copy.

The same journal entry decides the rescaling of sources with splits, which may be the whole change. The
:class:`~.rescaler.Rescaler` carries that out. Until the decision no such source ends, so that a rescaling that is
possible at the request is still possible at the decision.

Partial pause-and-resume and the four steps are from Trisk (SoCC 2021).
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.coordinator.change_scope import by_vertex
from airflow_provider_ckpt.coordinator.coordinator_state import CoordinatorState
from airflow_provider_ckpt.coordinator.errors import ReconfigurationRefusedError
from airflow_provider_ckpt.coordinator.failover import Failover
from airflow_provider_ckpt.coordinator.job_lifecycle import JobLifecycle
from airflow_provider_ckpt.coordinator.protocol.commands import PrepareReconfiguration
from airflow_provider_ckpt.coordinator.protocol.effects import Append
from airflow_provider_ckpt.coordinator.protocol.reports import ReconfigurationPrepared, ReconfigurationUnfit
from airflow_provider_ckpt.coordinator.rescaler import Rescaler
from airflow_provider_ckpt.coordinator.state.reconfiguration_state import ReconfigurationInProgress
from airflow_provider_ckpt.coordinator.state.requests import in_progress
from airflow_provider_ckpt.coordinator.state.subtask_table import SubtaskStatus
from airflow_provider_ckpt.coordinator.subtask_lifecycle import SubtaskLifecycle
from airflow_provider_ckpt.journal.events import ReconfigurationEnded, RequestAnswered
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_request import ReconfigureRequest
from airflow_provider_ckpt.model.request_outcome import AS_IT_IS, RequestOutcome, RequestResult
from airflow_provider_ckpt.model.vertex_settings import Settings, merged, query_changes, rescales

KIND = "reconfigure"


class Reconfigurer:
    def __init__(
        self, parts: CoordinatorState, job: JobLifecycle, failover: Failover, lifecycle: SubtaskLifecycle
    ) -> None:
        self._parts, self._job, self._failover, self._lifecycle = parts, job, failover, lifecycle
        self._rescaler = Rescaler(parts, job, failover)

    def start(self, now: float) -> None:
        """Continue a rescaling that began under an earlier JobMaster."""
        self._rescaler.start(now)

    def requested(self, message: ReconfigureRequest, now: float) -> RequestOutcome:
        """Accept or refuse a request, and return the first answer."""
        parts, request = self._parts, message.name or None
        try:
            asked = by_vertex(parts.graph.now, message.changes)
            change, scales = query_changes(asked), rescales(asked)
            self._refuse(change, scales)
            if not scales and merged(parts.reconfiguring.settings, change) == dict(parts.reconfiguring.settings):
                return self._answer(request, RequestOutcome.completed(AS_IT_IS), now)
            affected = self._affected(change)
        except ReconfigurationRefusedError as error:
            return self._answer(request, RequestOutcome.refused(error.data["why"]), now)
        current = parts.reconfiguring.begin(message, change, scales, affected, now, parts.options.timeout)
        for uid in scales:
            parts.splits.hold(uid)
        parts.requests.note(request, KIND)
        accepted = self._answer(request, RequestOutcome(RequestResult.ACCEPTED), now)
        if not affected:  # no query has to be built or paused before the decision
            parts.out.append(Append(parts.reconfiguring.decide(current, now)))
        for subtask in affected:
            plan = parts.reconfiguring.planned(parts.pauses.plan(subtask), subtask.vertex)
            parts.send(PrepareReconfiguration(*parts.task_id(subtask), current.trial, plan))
        return accepted

    def prepared(self, message: ReconfigurationPrepared, now: float) -> None:
        self._parts.reconfiguring.prepared(message.subtask, message.trial, message.digests, now)

    def unfit(self, message: ReconfigurationUnfit, now: float) -> None:
        current = self._parts.reconfiguring.current
        if current is not None and current.decided is None:
            self._abandon(current, f"{message.subtask.vertex}: {message.cause}", now)

    def next_deadline(self) -> float | None:
        current = self._parts.reconfiguring.current
        return None if current is None or current.decided is not None else current.deadline

    def advance(self, now: float) -> None:
        """Carry out the next step that is possible now."""
        self._rescaler.advance(now)
        current = self._parts.reconfiguring.current
        if current is None:
            return
        if current.decided is None:
            if (why := self._what_came_between(current, now)) is not None:
                self._abandon(current, why, now)
            elif self._parts.reconfiguring.changes_nothing:
                same = f"{AS_IT_IS}: the code read for {', '.join(current.change)} already runs"
                self._end_undecided(current, RequestOutcome.completed(same), now)
            return
        for subtask in current.affected:
            self._restart_repartitioned(current, subtask, now)
        if all(self._runs(subtask) for subtask in current.affected) and self._parts.rescaling.current is None:
            self._complete(current, now)

    # -- refusals

    def _refuse(self, change: Settings, scales: Mapping[str, int]) -> None:
        """Refuse a change that is impossible, or impossible now. The job continues unchanged.

        Raises ReconfigurationRefusedError.
        """
        if (upgrade := self._parts.requests.upgrade) is not None:
            raise ReconfigurationRefusedError(why=in_progress(upgrade))
        if self._is_ending:
            raise ReconfigurationRefusedError(why="the job is being ended")
        if change and self._parts.options.is_batch:
            raise ReconfigurationRefusedError(why="the job is in batch mode, and its queries read all there is and end")
        if (current := self._parts.reconfiguring.current) is not None:
            raise ReconfigurationRefusedError(why=str(current))
        for uid, parallelism in scales.items():
            if (why_not := self._rescaler.refusal_of(uid, parallelism)) is not None:
                raise ReconfigurationRefusedError(why=why_not)

    def _affected(self, change: Settings) -> tuple[SubtaskId, ...]:
        """Return the subtasks of the queries that the change affects.

        Raises ReconfigurationRefusedError if such a query has ended or does not run.
        """
        parts = self._parts
        self._refuse_ended_sources(change)
        found = [one for uid in change for one in parts.graph.now.vertex(uid).subtasks]
        for subtask in found:
            if parts.subtasks.has_ended(subtask):
                raise ReconfigurationRefusedError(why=f"{subtask.vertex} has ended")
            if parts.subtasks.status(subtask) not in (SubtaskStatus.RUNNING, SubtaskStatus.PAUSED):
                why = f"{subtask} does not run now, it is {parts.subtasks.status(subtask).value}; ask again"
                raise ReconfigurationRefusedError(why=why)
        return tuple(found)

    def _refuse_ended_sources(self, change: Settings) -> None:
        """Refuse another function for a source that has ended, because the query no longer reads it.

        Its declared function can be restored, because that needs no file.
        """
        for vertex, one in change.items():
            given = {uid for uid, reference in one.logic.items() if reference}
            for uid in sorted(uid for uid in given if (vertex, uid) in self._parts.sources.all_ended):
                raise ReconfigurationRefusedError(why=f"{uid} has ended, and its function is no longer called")

    # -- steps

    def _what_came_between(self, current: ReconfigurationInProgress, now: float) -> str | None:
        """Return why the change must be abandoned, or None if it continues."""
        parts = self._parts
        if self._is_ending:
            return "the job is being ended"
        for subtask in current.affected:
            status = parts.subtasks.status(subtask)
            if parts.subtasks.has_ended(subtask):
                return f"{subtask.vertex} came to its end meanwhile"
            if status not in (SubtaskStatus.RUNNING, SubtaskStatus.PAUSED):
                return f"{subtask} failed meanwhile"
        if (torn := parts.reconfiguring.torn) is not None:
            return f"{torn} was not the same for all readers: it was edited meanwhile, or workers have other files"
        return f"{self._waited_for(current)} within {parts.options.timeout:g} s" if now >= current.deadline else None

    def _waited_for(self, current: ReconfigurationInProgress) -> str:
        """Return the step that had not happened by the deadline."""
        late = [str(one) for one in current.affected if one not in current.prepared]
        if late:
            return f"{', '.join(late)} had not prepared its new query"
        late = [str(one) for one in current.affected if one not in current.paused]
        return f"{', '.join(late)} did not pause" if current.pause_requested else "the pause could not begin"

    def _abandon(self, current: ReconfigurationInProgress, why: str, now: float) -> None:
        cause = why if self._is_ending else f"{why}; the job continues unchanged"
        self._end_undecided(current, RequestOutcome.failed(cause), now)

    def _end_undecided(self, current: ReconfigurationInProgress, outcome: RequestOutcome, now: float) -> None:
        """End the change before it is decided. The paused subtasks resume unchanged."""
        for uid in current.rescales:
            self._parts.splits.unhold(uid)
        self._lifecycle.resume(self._parts.pauses.abandon(self._parts.reconfiguring))
        self._end(current, 0, outcome, now)

    def _restart_repartitioned(self, current: ReconfigurationInProgress, subtask: SubtaskId, now: float) -> None:
        parts = self._parts
        if not current.moves_state(subtask) or subtask in current.restarted or parts.subtasks.has_ended(subtask):
            return
        current.restarted.add(subtask)
        if parts.subtasks.status(subtask) is not SubtaskStatus.PAUSED:
            return  # it failed in between, and its next attempt has been requested
        self._failover.restart_unfailed(subtask, now)

    def _complete(self, current: ReconfigurationInProgress, now: float) -> None:
        took = current.times()
        results = [f"{uid} was paused for {one.update + one.resume:.1f} s" for uid, one in took.items()]
        results += [f"{uid} is read by {wanted}" for uid, wanted in current.rescales.items()]
        outcome = RequestOutcome.completed(", ".join(results) or "no query had to pause")
        self._end(current, current.number, outcome, now)

    def _end(self, current: ReconfigurationInProgress, number: int, outcome: RequestOutcome, now: float) -> None:
        parts = self._parts
        parts.reconfiguring.over()
        current.outcome = outcome
        ended = ReconfigurationEnded(
            number, current.request, outcome, current.times(), now, by=current.by, why=current.why
        )
        parts.out.append(Append(ended))
        parts.requests.close_one(current.request)
        self._answer(current.request, outcome, now)

    # -- helpers

    @property
    def _is_ending(self) -> bool:
        requests = self._parts.requests
        return self._job.is_ending or requests.stop is not None or requests.draining

    def _runs(self, subtask: SubtaskId) -> bool:
        """Return whether the subtask runs again or has ended. It is PAUSED as soon as the pause is requested."""
        subtasks = self._parts.subtasks
        return subtasks.has_ended(subtask) or subtasks.status(subtask) is SubtaskStatus.RUNNING

    def _answer(self, request: str | None, outcome: RequestOutcome, now: float) -> RequestOutcome:
        if request is not None:
            self._parts.out.append(Append(RequestAnswered(request, KIND, outcome, now)))
        return outcome
