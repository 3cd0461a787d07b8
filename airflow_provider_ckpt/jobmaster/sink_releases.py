"""Release of a checkpoint's output in a sink, and in the sinks of the same transaction (R9)."""

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
"""Sink uid → progress of its releases."""
_NOTHING = SinkProgress()


class GateClosed(Exception):
    """The gate of ``sink`` holds back its rows, and those of its transaction."""

    def __init__(self, sink: str) -> None:
        super().__init__(sink)
        self.sink = sink


class SinkReleases:
    """The releases of one run.

    Args:
        graph: Function that returns the graph that the job runs now.
        logs: Loaded logs of every subtask that a checkpoint covers.
        sinks: Bound sinks by uid.
        policies: Release rules of the sinks.
    """

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
        # one object for each transaction, so that a slow transaction does not hold up the others
        self._together = {members: TogetherReleases() for members in policies.transactions.values()}

    def carry_out(self, uid: str, completed: CheckpointCompleted, since: Since) -> dict[str, int]:
        """Release the output staged between the sink's last released checkpoint and ``completed``. Return the sink's
        counts, including rows whose count was lost before (:class:`ReleaseCounts`).

        Raises GateClosed, and the errors of the sink and the gate.
        """
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
        """Release in all sinks of the transaction, once the gate of each is open."""
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
        if not isinstance(answer, bool):  # the text "false" would count as true
            raise GateAnswerError(job=self._job_id, sink=uid, checkpoint=completed.checkpoint, answer=answer)
        return answer

    @staticmethod
    def _ask(gate: Gate, pending: PendingRelease) -> object:
        try:
            return gate(pending)
        except Exception as error:  # any error of the gate is no answer, and is not the sink's failure
            cause = str(error) if isinstance(error, CkptError) else kind_and_text(error)
            raise GateFailedError(
                job=pending.job_id, sink=pending.sink, checkpoint=pending.checkpoint, cause=cause
            ) from error

    def _handles(self, uid: str, completed: CheckpointCompleted, since: SinkProgress) -> list[Handle]:
        found: list[Handle] = []
        for vertex in [one for one in self._graph().vertices if uid in one.sinks]:
            for subtask in [
                one for one in vertex.subtasks if one in completed.subtasks
            ]:  # new ones may have come since
                found += self._of(subtask, uid, completed, since)
        return found

    def _of(self, subtask: SubtaskId, uid: str, completed: CheckpointCompleted, since: SinkProgress) -> list[Handle]:
        end, log, is_final = position(completed, subtask), self._logs[subtask], uid in self._policies.final_only
        # a sink that releases at the end only has not released anything so far
        start = 0 if is_final or since.released is None else position(since.released, subtask)
        records = log.records(start)
        if log.position < end:  # a part must not be released as the whole
            raise SubtaskLogLostError(log=log.path, next=log.position, covered=end, checkpoint=completed.checkpoint)
        return [
            dict(record.handles[uid])
            for number, record in (from_epoch(records, since.epoch) if is_final else records)
            if isinstance(record, Batch) and number < end and uid in record.handles
        ]


def position(completed: CheckpointCompleted, subtask: SubtaskId) -> int:
    """Return the position up to which the checkpoint covers the subtask's log; 0 if the subtask had not started."""
    snapshot = completed.subtasks.get(subtask)
    return 0 if snapshot is None else snapshot.position
