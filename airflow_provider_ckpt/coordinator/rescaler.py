"""The execution of a rescaling: another number of subtasks reads a source with splits, while the job runs.

Assigned splits stay where they are. The remaining splits go to the new set of readers. With fewer readers, the surplus
ones end after the splits that they have. With more readers, the steps are (R21):

1. The new graph is written into the journal. This is the commit point: later runs use the new graph even if this run
   fails.
2. The consumers of the source pause, one after the other, and resume with the new subtasks among their inputs. They
   miss nothing, because no new subtask has begun. The source does not end meanwhile. A consumer that had read it to its
   end could not accept new inputs, and would miss the barriers of the new subtasks.
3. While no checkpoint is pending, the new subtasks join the running graph and begin. No checkpoint is taken until all
   of them run (R15).

Partial pause-and-resume, and the rule that only affected subtasks pause, are from Trisk.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_provider_ckpt.coordinator.coordinator_state import CoordinatorState
from airflow_provider_ckpt.coordinator.failover import Failover
from airflow_provider_ckpt.coordinator.job_lifecycle import JobLifecycle
from airflow_provider_ckpt.coordinator.protocol.commands import RestartSubtask
from airflow_provider_ckpt.coordinator.protocol.effects import Append
from airflow_provider_ckpt.coordinator.protocol.messages import RescaleRequested
from airflow_provider_ckpt.coordinator.state.requests import in_progress
from airflow_provider_ckpt.coordinator.state.rescale_state import RescaleInProgress
from airflow_provider_ckpt.coordinator.state.subtask_table import SubtaskStatus
from airflow_provider_ckpt.journal.events import GraphChanged, RequestAnswered, SubtasksAdded
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.request_outcome import RequestOutcome, RequestResult
from airflow_provider_ckpt.model.setting_ranges import problem_of
from airflow_provider_ckpt.model.words import counted

KIND = "rescale"


class Rescaler:
    """The rules of a rescaling.

    If ``has_workers`` is set, the subtasks run in processes of their own. No process is started for a new subtask. It
    runs together with a subtask that reads the source, and the worker of that subtask learns from the journal when to
    begin it.
    """

    def __init__(
        self, parts: CoordinatorState, job: JobLifecycle, failover: Failover, *, has_workers: bool = False
    ) -> None:
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
        """Return the event that decides the rescaling.

        The caller writes it into the journal before any subtask is notified.

        Args:
            request: the request, or None if a reconfiguration includes the rescaling.
            wanted: source -> its new number of readers, for which :meth:`refusal_of` returns None.
            now: current time.
            aware: see :meth:`RescaleState.begin`.
        """
        readers = {uid: self.readers(uid) for uid in wanted}
        more = {uid: max(0, number - len(readers[uid])) for uid, number in wanted.items()}
        change = self._parts.rescaling.begin(request, wanted, more, aware)
        for uid in wanted if change.new else ():
            self._parts.splits.hold(uid)
        hosts = self._parts.rescaling.place(change.new, readers) if self._has_workers else {}
        return GraphChanged(change.number, change.graph, wanted, now, hosts)

    def start(self, now: float) -> None:
        """Adopt the new subtasks of a rescaling that began under an earlier JobMaster.

        The earlier JobMaster may have died before all consumers of a source knew its new subtasks. Such a consumer
        restarts when it learns of this JobMaster, and then knows them. The source does not end until all consumers have
        reported that they run, because a consumer with the old graph could believe that it has read all of the source.
        """
        for uid in self._parts.rescaling.unsettled():
            self._parts.splits.hold(uid)
        if self._has_workers and self._parts.rescaling.waiting:
            self._parts.out.append(Append(SubtasksAdded(self._parts.rescaling.waiting, now)))

    def advance(self, now: float) -> None:
        """Carry out the next step that is possible now."""
        for uid in self._parts.rescaling.settle():
            self._parts.splits.unhold(uid)
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

    # -- refusals

    def _refusal(self, message: RescaleRequested) -> str | None:
        """Return why the request is refused, or None. The job continues unchanged after a refusal."""
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
        """Return why ``parallelism`` subtasks cannot read the source, or None if they can."""
        parts, by_split = self._parts, [one.uid for one in self._parts.graph.now.vertices if one.splits]
        if uid not in by_split:
            known = ", ".join(by_split) or "none"
            return f"{uid} is no source with splits, and nothing else can be rescaled while it runs; there are: {known}"
        if (problem := problem_of("parallelism", parallelism)) is not None:
            return problem
        if any(edge.exchange == "pointwise" for edge in parts.graph.now.outputs(uid)):
            return f"the consumers of {uid} read it pointwise"
        if not parts.splits.is_open(uid):
            return f"all splits of {uid} are assigned"
        if parallelism > (unread := parts.splits.unread(uid)):
            return f"{uid} has {counted(unread, 'split')} left to read, and cannot be read by {parallelism} subtasks"
        if not parts.rescaling.is_settled(uid):
            return f"the job was just taken over, and not all consumers of {uid} have reported; ask again"
        return None

    # -- steps

    def _begin_if_quiet(self, change: RescaleInProgress, now: float) -> None:
        """Begin the new subtasks, unless a checkpoint is pending that was planned without them.

        A stop takes precedence.
        """
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
        """Add the new subtasks to the running graph, and assign the remaining splits to the wanted number of
        readers.
        """
        parts, readers = self._parts, {uid: self.readers(uid) for uid in change.wanted}
        parts.graph.change(change.number, change.graph)
        for uid, wanted in change.wanted.items():
            new = [one for one in change.new if one.vertex == uid]
            parts.splits.reassign(uid, [*readers[uid], *new][:wanted])

    def _complete(self, change: RescaleInProgress, now: float) -> None:
        self._parts.rescaling.over()
        read = ", ".join(f"{uid} is read by {wanted}" for uid, wanted in change.wanted.items())
        outcome = RequestOutcome.completed(read)
        self._parts.requests.close_one(change.request)
        self._answer(change.request, outcome, now)

    # -- helpers

    def readers(self, uid: str) -> list[SubtaskId]:
        """Return the subtasks of the source that can be assigned splits.

        A subtask whose log has its end is left out.
        """
        subtasks, splits = self._parts.subtasks, self._parts.splits
        names = self._parts.graph.now.vertex(uid).subtasks
        return [one for one in names if not subtasks.has_ended(one) and splits.may_read(one)]

    def _runs(self, subtask: SubtaskId) -> bool:
        subtasks = self._parts.subtasks
        return subtasks.has_ended(subtask) or subtasks.status(subtask) is SubtaskStatus.RUNNING

    def _answer(self, request: str | None, outcome: RequestOutcome, now: float) -> None:
        if request is not None:
            self._parts.out.append(Append(RequestAnswered(request, KIND, outcome, now)))
