"""Execution of releases (commits) in threads of their own. Checkpoints and other sinks continue meanwhile (R9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from airflow_provider_ckpt.coordinator.protocol.messages import ReleaseDone, ReleaseFailed, ReleaseHeld
from airflow_provider_ckpt.errors import CkptError, kind_and_text
from airflow_provider_ckpt.jobmaster.release.release_policies import ReleasePolicies
from airflow_provider_ckpt.jobmaster.release.sink_releases import GateClosed, ReleaseProgress, SinkReleases
from airflow_provider_ckpt.journal.events import CheckpointCompleted
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.subtasklog.log_reader import LogReader

Answer = ReleaseDone | ReleaseFailed | ReleaseHeld


class Releaser:
    """Threads that release in sinks. The caller asks for one release of a sink at a time.

    Args:
        post: Function that receives the answer to each release.
        check_fenced: Function that raises if a later epoch was claimed.
    """

    def __init__(
        self,
        graph: Callable[[], JobGraph],
        logs: Mapping[SubtaskId, LogReader],
        sinks: Mapping[str, BoundSink],
        policies: ReleasePolicies,
        *,
        job_id: str,
        epoch: int,
        post: Callable[[Answer], None],
        check_fenced: Callable[[], None],
    ) -> None:
        self._releases = SinkReleases(job_id, graph, logs, sinks, policies)
        self._epoch, self._post, self._check_fenced = epoch, post, check_fenced
        self._thread = ThreadPoolExecutor(max(1, len(sinks)), thread_name_prefix="ckpt-release")

    def release(self, sink: str, completed: CheckpointCompleted, progress: ReleaseProgress) -> None:
        """Release in ``sink`` the staged output up to ``completed``, in another thread, which posts the answer."""
        self._thread.submit(self._run, sink, completed, progress)

    def close(self) -> None:
        """Wait until the running releases are over."""
        self._thread.shutdown(wait=True)

    def _run(self, sink: str, completed: CheckpointCompleted, progress: ReleaseProgress) -> None:
        number = completed.checkpoint
        try:
            self._check_fenced()
            counts = self._releases.carry_out(sink, completed, progress)
        except GateClosed as closed:
            self._post(ReleaseHeld(self._epoch, number, sink, closed.sink))
        except CkptError as error:
            self._post(ReleaseFailed(self._epoch, number, sink, str(error), terminal=not error.retryable))
        except BaseException as error:  # a sink may raise anything, and the coordinator waits for an answer
            self._post(ReleaseFailed(self._epoch, number, sink, kind_and_text(error)))
        else:
            self._post(ReleaseDone(self._epoch, number, sink, counts))
