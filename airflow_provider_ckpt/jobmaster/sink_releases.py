"""What a checkpoint releases in a sink, and in those that share a transaction with it (R9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from airflow_provider_ckpt.errors import CkptError, kind_and_text
from airflow_provider_ckpt.job.gate import Gate, PendingRelease
from airflow_provider_ckpt.jobmaster.errors import GateAnswerError, GateFailedError, SubtaskLogLostError
from airflow_provider_ckpt.jobmaster.release_counts import ReleaseCounts
from airflow_provider_ckpt.jobmaster.release_policies import ReleasePolicies
from airflow_provider_ckpt.jobmaster.together_releases import TogetherReleases
from airflow_provider_ckpt.journal.events import CheckpointCompleted
from airflow_provider_ckpt.journal.sink_progress import SinkProgress
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.log_reader import LogReader
from airflow_provider_ckpt.partitions.log_state import from_epoch
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.sinks.answers import checked_counts, checked_together
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, Share

Since = Mapping[str, SinkProgress]
"""By sink."""
_NOTHING = SinkProgress()


class GateClosed(Exception):
    """The gate of ``sink`` said that its rows are not to be released yet, nor those of its transaction."""

    def __init__(self, sink: str) -> None:
        super().__init__(sink)
        self.sink = sink


class SinkReleases:
    """What a checkpoint releases in one sink. ``graph``: gives the one that the job runs now. ``logs``: of every
    subtask that a checkpoint knows, loaded."""

    def __init__(
        self,
        job_id: str,
        graph: Callable[[], JobGraph],
        logs: Mapping[SubtaskId, LogReader],
        sinks: Mapping[str, BoundSink],
        policies: ReleasePolicies,
    ) -> None:
        self._job_id, self._sinks, self._policies = job_id, sinks, policies
        self._graph, self._logs = graph, logs
        self._counts = ReleaseCounts()
        # one for each transaction: one that is slow holds up no other
        self._together = {members: TogetherReleases() for members in policies.transactions.values()}

    def carry_out(self, uid: str, completed: CheckpointCompleted, since: Since) -> dict[str, int]:
        """Release what was staged between the last checkpoint that the sink has and this one; what the sink counted,
        with rows that no answer has told (:class:`ReleaseCounts`). Raises GateClosed, and what the sink, or the gate,
        fails with."""
        if uid in self._policies.final_only and not completed.is_final:
            return {}
        if uid in self._policies.transactions:
            together = self._together[self._policies.transactions[uid]]
            return together.carry_out(uid, completed.checkpoint, lambda: self._release_all(uid, completed, since))
        handles = self._let_pass(uid, completed, since)
        sink = self._sinks[uid]
        answer = sink.release(handles, completed.checkpoint)
        return self._counts.of(uid, handles, checked_counts(uid, sink, answer, handles))

    def _release_all(self, uid: str, completed: CheckpointCompleted, since: Since) -> dict[str, dict[str, int]]:
        """Of all sinks that share its transaction, once the gate of each lets its rows pass."""
        members = self._policies.transactions[uid]
        shares = [Share(self._sinks[one], self._let_pass(one, completed, since)) for one in members]
        sink = self._sinks[uid]
        counts = checked_together(uid, sink, sink.release_together(shares, completed.checkpoint), len(shares))
        found = zip(members, shares, counts, strict=True)
        return {
            one: self._counts.of(one, share.handles, checked_counts(one, share.sink, count, share.handles))
            for one, share, count in found
        }

    def _let_pass(self, uid: str, completed: CheckpointCompleted, since: Since) -> list[Handle]:
        handles = self._handles(uid, completed, since.get(uid, _NOTHING))
        if not self._is_open(uid, completed, handles):
            raise GateClosed(uid)
        return handles

    def _is_open(self, uid: str, completed: CheckpointCompleted, handles: Sequence[Handle]) -> bool:
        gate = self._policies.gates.get(uid)
        if gate is None:
            return True
        rows = sum(handle["rows"] for handle in handles)
        if not rows:
            return True
        answer = self._ask(gate, PendingRelease(self._job_id, uid, completed.checkpoint, rows))
        if not isinstance(answer, bool):  # "false" is true
            raise GateAnswerError(job=self._job_id, sink=uid, checkpoint=completed.checkpoint, answer=answer)
        return answer

    @staticmethod
    def _ask(gate: Gate, pending: PendingRelease) -> object:
        try:
            return gate(pending)
        except Exception as error:  # whatever it is: it is no answer, and not the sink's failure
            cause = str(error) if isinstance(error, CkptError) else kind_and_text(error)
            raise GateFailedError(
                job=pending.job_id, sink=pending.sink, checkpoint=pending.checkpoint, cause=cause
            ) from error

    def _handles(self, uid: str, completed: CheckpointCompleted, since: SinkProgress) -> list[Handle]:
        found: list[Handle] = []
        for vertex in [one for one in self._graph().vertices if uid in one.sinks]:
            for subtask in [one for one in vertex.subtasks if one in completed.subtasks]:  # it may have got more since
                found += self._of(subtask, uid, completed, since)
        return found

    def _of(self, subtask: SubtaskId, uid: str, completed: CheckpointCompleted, since: SinkProgress) -> list[Handle]:
        end, log, is_final = position(completed, subtask), self._logs[subtask], uid in self._policies.final_only
        # a sink that releases at the end only has been released nothing so far
        start = 0 if is_final or since.released is None else position(since.released, subtask)
        records = log.records(start)
        if log.position < end:  # a part of what it covers must not be taken for all of it
            raise SubtaskLogLostError(log=log.path, next=log.position, covered=end, checkpoint=completed.checkpoint)
        return [
            dict(record.handles[uid])
            for number, record in (from_epoch(records, since.epoch) if is_final else records)
            if isinstance(record, Batch) and number < end and uid in record.handles
        ]


def position(completed: CheckpointCompleted, subtask: SubtaskId) -> int:
    """The position of the subtask's log that the checkpoint covers; 0 if it had not started."""
    snapshot = completed.subtasks.get(subtask)
    return 0 if snapshot is None else snapshot.position
