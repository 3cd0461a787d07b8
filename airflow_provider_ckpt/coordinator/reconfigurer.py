"""The execution of a reconfiguration: queries of the running job get other settings or functions.

Only the affected queries pause, and no longer than necessary. The steps (R21):

1. *prepare*: while the old query runs, each affected subtask builds its new query and tries it on copied state.
   If anything is wrong, the request fails and nothing has changed.
2. *sync*: while no checkpoint is pending, all affected subtasks are commanded to pause after a micro-batch.
3. *update*: when all of these are paused, the change is written into the journal. This entry is the commit point. If a
   subtask fails earlier, the paused subtasks resume unchanged. After the commit point the change is final.
4. *resume*: each subtask resumes by itself. A subtask whose state is repartitioned resumes in its next attempt, from a
   copy of the state.

The same journal entry decides the rescaling of sources with splits. The :class:`~.rescaler.Rescaler` carries out this
part, which may be the whole change. Until the entry is written, the sources to be rescaled do not end.

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
from airflow_provider_ckpt.coordinator.state.request_state import in_progress
from airflow_provider_ckpt.coordinator.state.subtask_table import SubtaskStatus
from airflow_provider_ckpt.coordinator.subtask_lifecycle import SubtaskLifecycle
from airflow_provider_ckpt.journal.events import ReconfigurationEnded
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_request import ReconfigureRequest
from airflow_provider_ckpt.model.request_outcome import AS_IT_IS, RequestOutcome, RequestResult
from airflow_provider_ckpt.model.vertex_settings import Settings, merged, query_changes, rescales

KIND = "reconfigure"


class Reconfigurer:
    def __init__(
        self, state: CoordinatorState, job: JobLifecycle, failover: Failover, lifecycle: SubtaskLifecycle
    ) -> None:
        self._state, self._job, self._failover, self._lifecycle = state, job, failover, lifecycle
        self._rescaler = Rescaler(state, job, failover)

    def start(self, now: float) -> None:
        """Continue a rescaling that began under an earlier JobMaster."""
        self._rescaler.start(now)

    def requested(self, message: ReconfigureRequest, now: float) -> RequestOutcome:
        """Accept or refuse a request. Return the first answer to it."""
        state, request = self._state, message.name or None
        try:
            settings = by_vertex(state.graph.now, message.changes)
            change, scales = query_changes(settings), rescales(settings)
            self._refuse(change, scales)
            if not scales and merged(state.reconfiguration.settings, change) == dict(state.reconfiguration.settings):
                return state.answer(request, KIND, RequestOutcome.completed(AS_IT_IS), now)
            affected = self._affected(change)
        except ReconfigurationRefusedError as error:
            return state.answer(request, KIND, RequestOutcome.refused(error.data["why"]), now)
        current = state.reconfiguration.begin(message, change, scales, affected, now, state.options.timeout)
        for uid in scales:
            state.splits.keep_open(uid)
        state.requests.note(request, KIND)
        accepted = state.answer(request, KIND, RequestOutcome(RequestResult.ACCEPTED), now)
        if not affected:  # no query has to be built or paused before the decision
            state.out.append(Append(state.reconfiguration.decide(current, now)))
        for subtask in affected:
            plan = state.reconfiguration.planned(state.pauses.plan(subtask), subtask.vertex)
            state.send(PrepareReconfiguration(*state.task_id(subtask), current.trial, plan))
        return accepted

    def prepared(self, message: ReconfigurationPrepared, now: float) -> None:
        self._state.reconfiguration.prepared(message.subtask, message.trial, message.digests, now)

    def unfit(self, message: ReconfigurationUnfit, now: float) -> None:
        current = self._state.reconfiguration.current
        if current is not None and current.decided is None:
            self._abandon(current, f"{message.subtask.vertex}: {message.cause}", now)

    def next_deadline(self) -> float | None:
        current = self._state.reconfiguration.current
        return None if current is None or current.decided is not None else current.deadline

    def advance(self, now: float) -> None:
        """Advance the rescaling. Abandon, continue or complete the change in progress, if there is one."""
        self._rescaler.advance(now)
        current = self._state.reconfiguration.current
        if current is None:
            return
        if current.decided is None:
            if (why := self._abandon_reason(current, now)) is not None:
                self._abandon(current, why, now)
            elif self._state.reconfiguration.changes_nothing:
                same = f"{AS_IT_IS}: the code read for {', '.join(current.change)} already runs"
                self._end_undecided(current, RequestOutcome.completed(same), now)
            return
        for subtask in current.affected:
            self._restart_repartitioned(current, subtask, now)
        all_run = all(self._state.subtasks.runs_or_has_ended(subtask) for subtask in current.affected)
        if all_run and self._state.rescaling.current is None:
            self._complete(current, now)

    # -- refusals

    def _refuse(self, change: Settings, scales: Mapping[str, int]) -> None:
        """Raise ReconfigurationRefusedError for a change that is impossible in the current state of the job.

        ``scales``: source with splits → its new number of subtasks.
        """
        if (upgrade := self._state.requests.upgrade) is not None:
            raise ReconfigurationRefusedError(why=in_progress(upgrade))
        if self._job.is_being_ended:
            raise ReconfigurationRefusedError(why="the job is being ended")
        if change and self._state.options.is_batch:
            raise ReconfigurationRefusedError(why="the job is in batch mode, and its queries read all there is and end")
        if (current := self._state.reconfiguration.current) is not None:
            raise ReconfigurationRefusedError(why=str(current))
        for uid, parallelism in scales.items():
            if (why_not := self._rescaler.refusal_of(uid, parallelism)) is not None:
                raise ReconfigurationRefusedError(why=why_not)

    def _affected(self, change: Settings) -> tuple[SubtaskId, ...]:
        """Return the subtasks of the queries that the change affects.

        Raises ReconfigurationRefusedError if one of these subtasks has ended or does not run.
        """
        state = self._state
        self._refuse_ended_sources(change)
        affected = [subtask for uid in change for subtask in state.graph.now.vertex(uid).subtasks]
        for subtask in affected:
            if state.subtasks.has_ended(subtask):
                raise ReconfigurationRefusedError(why=f"{subtask.vertex} has ended")
            if state.subtasks.status(subtask) not in (SubtaskStatus.RUNNING, SubtaskStatus.PAUSED):
                why = f"{subtask} does not run now, it is {state.subtasks.status(subtask).value}; ask again"
                raise ReconfigurationRefusedError(why=why)
        return tuple(affected)

    def _refuse_ended_sources(self, change: Settings) -> None:
        """Raise ReconfigurationRefusedError for a new function of an ended source, which would not be called."""
        for vertex, settings in change.items():
            given = {uid for uid, reference in settings.logic.items() if reference}
            for uid in sorted(uid for uid in given if (vertex, uid) in self._state.sources.all_ended):
                raise ReconfigurationRefusedError(why=f"{uid} has ended, and its function is no longer called")

    # -- steps

    def _abandon_reason(self, current: ReconfigurationInProgress, now: float) -> str | None:
        """Return why the change must be abandoned, or None if it continues."""
        state = self._state
        if self._job.is_being_ended:
            return "the job is being ended"
        for subtask in current.affected:
            status = state.subtasks.status(subtask)
            if state.subtasks.has_ended(subtask):
                return f"{subtask.vertex} came to its end meanwhile"
            if status not in (SubtaskStatus.RUNNING, SubtaskStatus.PAUSED):
                return f"{subtask} failed meanwhile"
        if (file := state.reconfiguration.inconsistent_file) is not None:
            return f"{file} was not the same for all readers: it was edited meanwhile, or workers have other files"
        return f"{self._missed_step(current)} within {state.options.timeout:g} s" if now >= current.deadline else None

    def _missed_step(self, current: ReconfigurationInProgress) -> str:
        late = [str(subtask) for subtask in current.affected if subtask not in current.prepared]
        if late:
            return f"{', '.join(late)} had not prepared its new query"
        late = [str(subtask) for subtask in current.affected if subtask not in current.paused]
        return f"{', '.join(late)} did not pause" if current.pause_requested else "the pause could not begin"

    def _abandon(self, current: ReconfigurationInProgress, why: str, now: float) -> None:
        cause = why if self._job.is_being_ended else f"{why}; the job continues unchanged"
        self._end_undecided(current, RequestOutcome.failed(cause), now)

    def _end_undecided(self, current: ReconfigurationInProgress, outcome: RequestOutcome, now: float) -> None:
        """End the undecided change ``current`` with ``outcome``. The paused subtasks resume unchanged."""
        for uid in current.rescales:
            self._state.splits.allow_end(uid)
        self._lifecycle.resume(self._state.pauses.abandon(self._state.reconfiguration))
        self._end(current, 0, outcome, now)

    def _restart_repartitioned(self, current: ReconfigurationInProgress, subtask: SubtaskId, now: float) -> None:
        state = self._state
        if not current.moves_state(subtask) or subtask in current.restarted or state.subtasks.has_ended(subtask):
            return
        current.restarted.add(subtask)
        if state.subtasks.status(subtask) is not SubtaskStatus.PAUSED:
            return  # the subtask failed in between, and its next attempt has been requested
        self._failover.restart_unfailed(subtask, now)

    def _complete(self, current: ReconfigurationInProgress, now: float) -> None:
        phases = current.times()
        results = [f"{uid} was paused for {times.update + times.resume:.1f} s" for uid, times in phases.items()]
        results += [f"{uid} is read by {number}" for uid, number in current.rescales.items()]
        outcome = RequestOutcome.completed(", ".join(results) or "no query had to pause")
        self._end(current, current.number, outcome, now)

    def _end(self, current: ReconfigurationInProgress, number: int, outcome: RequestOutcome, now: float) -> None:
        state = self._state
        state.reconfiguration.end()
        current.outcome = outcome
        ended = ReconfigurationEnded(
            number, current.request, outcome, current.times(), now, by=current.by, why=current.why
        )
        state.out.append(Append(ended))
        state.requests.close_request(current.request)
        state.answer(current.request, KIND, outcome, now)
