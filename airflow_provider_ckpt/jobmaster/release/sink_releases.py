"""Releases of a checkpoint's output in a sink, and in the sinks of the same transaction (R9).

Each sink's release is requested separately. The first request of a transaction releases all of its sinks. No staged row
is counted twice or missed, even if the answer to a release was lost. A handle describes one staged batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from airflow_provider_ckpt.errors import CkptError, TerminalError, TransientError, kind_and_text
from airflow_provider_ckpt.job.sink_operator import Gate, PendingRelease
from airflow_provider_ckpt.jobmaster.errors import SubtaskLogLostError
from airflow_provider_ckpt.jobmaster.release.release_policies import ReleasePolicies
from airflow_provider_ckpt.journal.events import CheckpointCompleted
from airflow_provider_ckpt.journal.sink_progress import SinkProgress
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.sinks.result_checks import checked_counts, checked_together
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, ReleaseParticipant
from airflow_provider_ckpt.subtasklog.log_reader import LogReader
from airflow_provider_ckpt.subtasklog.log_state import from_epoch
from airflow_provider_ckpt.subtasklog.records import Batch

Counts = Mapping[str, int]
EARLIER_ROWS = "earlier_rows"
"""Key in counts: number of rows that an earlier call had already released. The count ``rows`` includes these rows."""
ReleaseProgress = Mapping[str, SinkProgress]
"""Sink uid → progress of its releases."""
_NOTHING = SinkProgress()


class SinkReleases:
    """The releases of one run.

    Args:
        graph: Function that returns the job's current graph.
        logs: Subtask → its loaded log, for every subtask that a checkpoint covers.
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
        self._groups = {members: TransactionGroup() for members in policies.transactions.values()}

    def carry_out(self, uid: str, completed: CheckpointCompleted, progress: ReleaseProgress) -> dict[str, int]:
        """Release the output staged between the sink's last released checkpoint and ``completed``.

        Return the sink's counts, including rows whose count was lost before (:class:`ReleaseCounts`).

        Raises GateClosed, and the errors of the sink and the gate.
        """
        if uid in self._policies.final_only and not completed.is_final:
            return {}
        if uid in self._policies.transactions:
            group = self._groups[self._policies.transactions[uid]]
            return group.carry_out(uid, completed.checkpoint, lambda: self._release_all(uid, completed, progress))
        handles = self._handles_past_gate(uid, completed, progress)
        sink = self._sinks[uid]
        answer = sink.release(handles, completed.checkpoint)
        return self._counts.of(uid, handles, checked_counts(uid, sink, answer, handles))

    def _release_all(
        self, uid: str, completed: CheckpointCompleted, progress: ReleaseProgress
    ) -> dict[str, dict[str, int]]:
        members = self._policies.transactions[uid]
        participants = [
            ReleaseParticipant(self._sinks[member], self._handles_past_gate(member, completed, progress))
            for member in members
        ]
        sink = self._sinks[uid]
        counts = checked_together(
            uid, sink, sink.release_together(participants, completed.checkpoint), len(participants)
        )
        results = zip(members, participants, counts, strict=True)
        return {
            member: self._counts.of(
                member, participant.handles, checked_counts(member, participant.sink, count, participant.handles)
            )
            for member, participant, count in results
        }

    def _handles_past_gate(self, uid: str, completed: CheckpointCompleted, progress: ReleaseProgress) -> list[Handle]:
        handles = self._handles(uid, completed, progress.get(uid, _NOTHING))
        if not self._is_gate_open(uid, completed, handles):
            raise GateClosed(uid)
        return handles

    def _is_gate_open(self, uid: str, completed: CheckpointCompleted, handles: Sequence[Handle]) -> bool:
        gate = self._policies.gates.get(uid)
        if gate is None:
            return True
        rows = sum(handle["rows"] for handle in handles)
        if not rows:
            return True
        answer = self._ask(gate, PendingRelease(self._job_id, uid, completed.checkpoint, rows))
        if not isinstance(answer, bool):  # the text "false" would count as true
            raise TerminalError(
                "the gate of sink {sink!r} of job {job!r} was asked about checkpoint {checkpoint} and returned "
                "{answer!r}: it must return True (release it) or False (not yet)",
                job=self._job_id,
                sink=uid,
                checkpoint=completed.checkpoint,
                answer=answer,
            )
        return answer

    @staticmethod
    def _ask(gate: Gate, pending: PendingRelease) -> object:
        try:
            return gate(pending)
        except Exception as error:  # any error of the gate is no answer, and is not the sink's failure
            cause = str(error) if isinstance(error, CkptError) else kind_and_text(error)
            raise TransientError(
                "the gate of sink {sink!r} of job {job!r} was asked about checkpoint {checkpoint} and failed: "
                "{cause}; nothing is released there until it answers",
                job=pending.job_id,
                sink=pending.sink,
                checkpoint=pending.checkpoint,
                cause=cause,
            ) from error

    def _handles(self, uid: str, completed: CheckpointCompleted, progress: SinkProgress) -> list[Handle]:
        handles: list[Handle] = []
        for vertex in [vertex for vertex in self._graph().vertices if uid in vertex.sinks]:
            for subtask in [
                subtask for subtask in vertex.subtasks if subtask in completed.subtasks
            ]:  # a rescale may have added subtasks since
                handles += self._subtask_handles(subtask, uid, completed, progress)
        return handles

    def _subtask_handles(
        self, subtask: SubtaskId, uid: str, completed: CheckpointCompleted, progress: SinkProgress
    ) -> list[Handle]:
        end, log, is_final = position(completed, subtask), self._logs[subtask], uid in self._policies.final_only
        # a sink that releases at the end only has not released anything so far
        start = 0 if is_final or progress.released is None else position(progress.released, subtask)
        records = log.records(start)
        if log.position < end:  # incomplete output must not be released as complete
            raise SubtaskLogLostError(log=log.path, next=log.position, covered=end, checkpoint=completed.checkpoint)
        return [
            dict(record.handles[uid])
            for number, record in (from_epoch(records, progress.epoch) if is_final else records)
            if isinstance(record, Batch) and number < end and uid in record.handles
        ]


def position(completed: CheckpointCompleted, subtask: SubtaskId) -> int:
    """Return the position up to which the checkpoint covers the subtask's log; 0 if the subtask had not started."""
    snapshot = completed.subtasks.get(subtask)
    return 0 if snapshot is None else snapshot.position


class TransactionGroup:
    """The joint releases of one transaction in one run. The first sink's request performs a release for all sinks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reached: dict[str, int] = {}
        self._uncollected: dict[str, dict[int, Counts]] = {}

    def carry_out(self, uid: str, checkpoint: int, release: Callable[[], Mapping[str, Counts]]) -> dict[str, int]:
        """Call ``release``, which releases in all sinks, unless ``uid`` has already released ``checkpoint``.

        Return the counts of ``uid`` that no earlier call has returned. They may be from another sink's call.
        """
        with self._lock:  # a concurrent call would only wait in the database
            if self._reached.get(uid, 0) < checkpoint:
                for member, counts in release().items():
                    self._reached[member] = checkpoint
                    self._uncollected.setdefault(member, {})[checkpoint] = counts
            return summed_counts(checkpoint, self._uncollected.pop(uid, {}))


class ReleaseCounts:
    """The row counts of the sinks of one run.

    If the answer to a release was lost, the next call gets the same handles again. The sink skips their rows and does
    not count them, so these rows are counted from the handles.
    """

    def __init__(self) -> None:
        self._counted: dict[str, set[str]] = {}

    def of(self, uid: str, handles: Iterable[Handle], counts: Counts) -> dict[str, int]:
        """Return the counts of one release of ``handles``, including rows that no answer has counted before.

        Only the handles of the previous call are remembered, because a handle that is missing from one call never comes
        again.
        """
        rows = {str(handle["id"]): handle.get("rows") for handle in handles}
        counted = self._counted.get(uid, set())
        self._counted[uid] = set(rows)
        total = sum(number or 0 for handle_id, number in rows.items() if handle_id not in counted)
        if "rows" not in counts or None in rows.values():
            return dict(counts)  # the handles of a user's own sink may lack row counts, so its counts are used
        earlier = max(0, total - counts["rows"])
        return {**counts, "rows": total, **({EARLIER_ROWS: earlier} if earlier else {})}


def summed_counts(checkpoint: int, by_checkpoint: Mapping[int, Counts]) -> dict[str, int]:
    """Add up the counts of several releases of one sink, as the counts of ``checkpoint``, the newest one.

    Rows that were released as an earlier checkpoint are also counted under EARLIER_ROWS.
    """
    names = dict.fromkeys(["rows", *(name for counts in by_checkpoint.values() for name in counts)])
    total = {name: sum(counts.get(name, 0) for counts in by_checkpoint.values()) for name in names}
    earlier = sum(
        counts.get("rows" if number < checkpoint else EARLIER_ROWS, 0) for number, counts in by_checkpoint.items()
    )
    return {**total, EARLIER_ROWS: earlier} if earlier else total


class GateClosed(Exception):
    """Error if the gate of ``sink`` holds back the rows of the sink and its transaction."""

    def __init__(self, sink: str) -> None:
        super().__init__(sink)
        self.sink = sink
