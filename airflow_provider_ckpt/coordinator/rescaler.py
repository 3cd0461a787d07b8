"""The rescaling step of a reconfiguration: another number of subtasks reads a source with splits.

The :class:`~.reconfigurer.Reconfigurer` checks the request and answers it. This step changes which subtasks get the
remaining splits. Only the consumers of the source pause, one after the other.

Assigned splits stay with their readers. The remaining splits are assigned to the new set of readers. With fewer
readers, each surplus reader ends after its assigned splits. With more readers, the steps are (R21):

1. The entry of the reconfiguration has the new graph. This is the commit point: later runs use the new graph even if
   this run fails.
2. Each consumer of the source pauses and resumes with the new subtasks among its inputs. It misses nothing, because no
   new subtask has begun. The source must not end meanwhile. A consumer at the end of the source could not accept
   new inputs, and would miss the barriers of the new subtasks.
3. While no checkpoint is pending, the new subtasks join the running graph and begin. No checkpoint is taken until all
   new subtasks run (R15).
"""

from __future__ import annotations

from airflow_provider_ckpt.coordinator.coordinator_state import CoordinatorState
from airflow_provider_ckpt.coordinator.failover import Failover
from airflow_provider_ckpt.coordinator.job_lifecycle import JobLifecycle
from airflow_provider_ckpt.coordinator.protocol.effects import Append
from airflow_provider_ckpt.coordinator.state.rescale_state import RescaleInProgress
from airflow_provider_ckpt.journal.events import SubtasksAdded
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.words import counted


class Rescaler:
    """The rules of a rescaling. With workers, a new subtask runs in the process of another subtask of its source."""

    def __init__(self, state: CoordinatorState, job: JobLifecycle, failover: Failover) -> None:
        self._state, self._job, self._failover = state, job, failover

    def start(self, now: float) -> None:
        """Continue a rescaling that began under an earlier JobMaster.

        The earlier JobMaster may have died before all consumers of the source had the new graph. Such a consumer
        restarts with the new graph when it notices this JobMaster. A consumer with the old graph would miss the new
        subtasks. So the source does not end until all consumers have reported that they run.
        """
        for uid in self._state.rescaling.unsettled():
            self._state.splits.keep_open(uid)
        if self._state.rescaling.has_workers and self._state.rescaling.waiting:
            self._state.out.append(Append(SubtasksAdded(self._state.rescaling.waiting, now)))

    def advance(self, now: float) -> None:
        """Begin the new subtasks when that is possible. End the rescaling when they run."""
        for uid in self._state.rescaling.settle():
            self._state.splits.allow_end(uid)
        change = self._state.rescaling.current
        if change is None:
            return
        if not change.new:
            self._begin(change)
            self._state.rescaling.end()
        elif not change.has_begun:
            self._begin_if_quiet(change, now)
        elif all(self._state.subtasks.runs_or_has_ended(subtask) for subtask in change.new):
            self._state.rescaling.end()

    def refusal_of(self, uid: str, parallelism: int) -> str | None:
        """Return why ``parallelism`` subtasks cannot read the source ``uid`` now, or None if they can."""
        state = self._state
        if any(edge.exchange == "pointwise" for edge in state.graph.now.outputs(uid)):
            return f"the consumers of {uid} read it pointwise"
        if not state.splits.is_open(uid):
            return f"all splits of {uid} are assigned"
        if parallelism > (unread := state.splits.unread(uid)):
            return f"{uid} has {counted(unread, 'split')} left to read, and cannot be read by {parallelism} subtasks"
        if not state.rescaling.is_settled(uid):
            return f"the job was just taken over, and not all consumers of {uid} have reported; ask again"
        return None

    # -- steps

    def _begin_if_quiet(self, change: RescaleInProgress, now: float) -> None:
        """Begin the new subtasks if all consumers can read them, and no checkpoint, pause or stop is in progress."""
        state, rescaling = self._state, self._state.rescaling
        busy = state.cycle.pending is not None or bool(state.pauses.current)
        if busy or state.requests.stop is not None or self._job.is_ending or not rescaling.reaches_all_consumers():
            return
        self._begin(change)
        if rescaling.has_workers:
            state.out.append(Append(SubtasksAdded(change.new, now)))
        for subtask in change.new:
            state.subtasks.add(subtask, AttemptId.vacant(state.subtasks.epoch))
            self._failover.restart_unfailed(subtask, now)
        change.has_begun = True

    def _begin(self, change: RescaleInProgress) -> None:
        """Add the new subtasks to the running graph. Assign the remaining splits to the requested number of readers."""
        state, decided = self._state, change.decided
        readers = {uid: state.rescaling.readers(uid) for uid in decided.rescaled}
        state.graph.now = decided.graph
        for uid, number in decided.rescaled.items():
            new = [subtask for subtask in change.new if subtask.vertex == uid]
            state.splits.reassign(uid, [*readers[uid], *new][:number])
