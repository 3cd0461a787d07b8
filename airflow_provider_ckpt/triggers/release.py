"""The trigger that reports every release to Airflow, so that Dags can run on released data while the job continues."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_ckpt.errors import kind_and_text
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.job.options.suggestions import did_you_mean, listed
from airflow_provider_ckpt.job.options.units import Duration, parse_duration
from airflow_provider_ckpt.journal.errors import CorruptJournalError
from airflow_provider_ckpt.model.source_times import MAX_WATERMARK
from airflow_provider_ckpt.printable import each_text, one_line
from airflow_provider_ckpt.storage.layout import check_job_id
from airflow_provider_ckpt.triggers.base import CkptTrigger
from airflow_provider_ckpt.triggers.threads import in_thread

if TYPE_CHECKING:
    from airflow_provider_ckpt.client.job_client import JobClient
    from airflow_provider_ckpt.journal.state import JobState


@dataclass(frozen=True)
class ReleaseEvent:
    """Event about the rows that ``checkpoint`` has released.

    A consumer that reads the rows released after ``after`` and up to ``checkpoint`` reads each row once, even if events
    are lost or sent twice.

    Args:
        after: Checkpoint of the previous event. For the first event, the last release before the trigger began, or 0.
        kind: checkpoint, savepoint or final. None if the journal no longer has the checkpoint.
        released_at: Epoch seconds of the release, by the driver's clock.
        watermark: Event time up to which the released output is complete, in ISO 8601. None if the job has no watermark
            or is at its end.
        rows: Number of rows that the release made visible, in all of ``sinks``.
        sinks: Sink -> name of a count -> count, such as ``{"lake": {"rows": 5}}``.
        late_rows: Number of rows dropped as late since the job began.
        unfit_rows: Number of rows with an unusable event time since the job began.
        malformed_rows: Number of rows that do not fit their source's schema since the job began.
    """

    job_id: str
    checkpoint: int
    after: int
    kind: str | None
    released_at: float
    watermark: str | None
    rows: int
    sinks: Mapping[str, Mapping[str, int]]
    late_rows: int
    unfit_rows: int
    malformed_rows: int

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = each_text(asdict(self), one_line)
        return fields


def release_events(state: JobState, after: int, sink: str | None = None) -> Iterator[ReleaseEvent]:
    """Yield an event for each release with rows after checkpoint ``after``, in order. The journal has 100 releases.

    If ``sink`` is given, a release counts as soon as the sink with this uid has released. Otherwise all sinks must have
    released, because the next ``after`` would skip the rows of a slower sink.
    """
    for number in sorted(state.releases):
        if sink is None and number > state.last_released:
            return
        release = state.releases[number]
        sinks = {uid: dict(counts) for uid, counts in release.sinks.items() if sink in (None, uid)}
        rows = sum(counts.get("rows", 0) for counts in sinks.values())
        if number > after and rows:
            checkpoint = state.checkpoints.get(number)
            kind = None if checkpoint is None else checkpoint.kind
            late, malformed = sum(state.late_rows(number).values()), sum(state.malformed_rows(number).values())
            unfit, watermark = state.unfit_rows(number), _shown(state, number)
            yield ReleaseEvent(
                state.job_id, number, after, kind, release.at, watermark, rows, sinks, late, unfit, malformed
            )
            after = number


def _shown(state: JobState, checkpoint: int) -> str | None:
    watermark = state.watermark(checkpoint)
    if watermark is None or watermark == MAX_WATERMARK:
        return None
    return datetime.fromtimestamp(watermark / 1000, timezone.utc).isoformat()


class CheckpointReleaseTrigger(CkptTrigger, BaseEventTrigger):
    """Trigger for an ``AssetWatcher``. It sends an asset event for each checkpoint with which a job released rows.

    The payload is a :class:`ReleaseEvent`. The job may run anywhere, because the trigger reads its journal. The
    progress is in the asset's state store, so the trigger reports later what is released while no triggerer runs. A
    triggerer that dies may send an event again (at least once; ``after`` and ``checkpoint`` show which rows are new).

    For a job that has released before, the trigger begins with the next release. The trigger never ends by itself,
    because an ended job may run again and an unreadable root may become readable. It logs all problems.

    :param job_id: the job.
    :param sink: uid of a sink. Only releases in which this sink shows rows are reported.
    :param ckpt_conn_id: connection of type ``ckpt``.
    :param root: root URI, overrides the connection's.
    :param poll_interval: time between two polls of the journal.
    """

    names = ("job_id", "sink", "ckpt_conn_id", "root", "poll_interval")

    def __init__(
        self,
        *,
        job_id: str,
        sink: str | None = None,
        ckpt_conn_id: str | None = CheckpointHook.default_conn_name,
        root: str | None = None,
        poll_interval: Duration = 10.0,
    ) -> None:
        """Check the arguments while the Dag is parsed, because a triggerer could only log a bad argument.

        Raises InvalidJobIdError if ``job_id`` cannot name a job, BadOptionError if ``poll_interval`` is no duration,
        and InvalidTaskArgumentError if it is 0.
        """
        super().__init__(ckpt_conn_id=ckpt_conn_id, root=root)
        check_job_id(job_id)
        seconds = parse_duration(poll_interval, "poll_interval")
        if not seconds:
            raise InvalidTaskArgumentError(argument="poll_interval", value=poll_interval, problem="give more than 0")
        self.job_id = job_id
        self.sink = sink
        self.poll_interval = seconds
        self._root_uri: str | None = None

    async def run(self) -> AsyncIterator[TriggerEvent]:
        client: JobClient | None = None
        progress: ReportedReleases | None = None
        saved, is_begun = progress, False
        while True:
            try:
                if not is_begun:
                    progress = saved = await self._read_progress()
                    is_begun = True
                if (
                    progress is not None and progress != saved
                ):  # one poll later, when Airflow has the events that were yielded
                    await self._save_progress(progress)
                    saved = progress
                client = client or await self._client()
                state = await in_thread(client.read_state, root=self._root_uri)
                if state.damage:  # entries before the damage are reported already, or may belong to another job
                    raise CorruptJournalError(job_id=self.job_id, reason="; ".join(state.damage))
                self._warn_of_missing_sink(state)
                progress = await self._begin_progress(state) if progress is None else progress.for_job(state)
            except Exception as error:  # from Airflow's API, a file system or the journal
                self._warn_once(kind_and_text(error))
            else:
                for event in release_events(state, progress.checkpoint, self.sink):
                    yield TriggerEvent(event.to_json())  # type: ignore[no-untyped-call]
                    progress = replace(progress, checkpoint=event.checkpoint)
            await self._sleep(self.poll_interval)

    async def _client(self) -> JobClient:
        hook = await self._hook()
        self._root_uri = hook.root_uri
        return hook.client(self.job_id)

    # ---- the progress

    @property
    def _key(self) -> str:
        return f"ckpt_release/{self.job_id}/{self.sink or ''}"

    async def _begin_progress(self, state: JobState) -> ReportedReleases:
        sink_released = state.sinks_released.get(self.sink, 0) if self.sink else 0
        progress = ReportedReleases(_created(state), max(state.last_released, sink_released))
        await self._save_progress(progress)
        return progress

    async def _read_progress(self) -> ReportedReleases | None:
        store = self.asset_state_store
        try:
            value = None if store is None else await store.aget(self._key)
        except ValueError:  # from the store, if the trigger belongs to several assets
            self._warn_once(
                "several assets share this trigger, and its progress is kept for one: give each asset its own"
            )
            self.asset_state_store = value = None
        return ReportedReleases.read(value)

    async def _save_progress(self, progress: ReportedReleases) -> None:
        if self.asset_state_store is not None:
            await self.asset_state_store.aset(self._key, asdict(progress))

    def _warn_of_missing_sink(self, state: JobState) -> None:
        """Warn if the job lacks the sink, because the trigger would wait for it in vain."""
        sinks = sorted(uid for vertex in state.graph().vertices for uid in vertex.sinks)
        if self.sink is not None and sinks and self.sink not in sinks:
            hint = did_you_mean(self.sink, sinks)
            self._warn_once(f"it has no sink {self.sink!r}, so no events come.{hint} It has: {listed(sinks)}")

    def _warn_once(self, problem: str) -> None:
        self._log_once(f"Releases of job {self.job_id}: {problem}", self.log.warning)


@dataclass(frozen=True)
class ReportedReleases:
    """Releases that the trigger has reported.

    Args:
        created: Creation time of the job, from its journal. None without a journal. If the time changes (after the root
            was deleted), checkpoints count from 1 again.
        checkpoint: The last checkpoint whose release is reported.
    """

    created: float | None
    checkpoint: int

    @classmethod
    def read(cls, value: object) -> ReportedReleases | None:
        """Return the progress from the store. None if ``value`` has another form (users can edit the store)."""
        try:
            progress = cls(**value) if isinstance(value, dict) else None
        except TypeError:
            return None
        return progress if progress is not None and isinstance(progress.checkpoint, int) else None

    def for_job(self, state: JobState) -> ReportedReleases:
        """Return the progress for the job in ``state``.

        A new journal resets the progress. A missing journal does not.
        """
        created = _created(state)
        return self if created in (None, self.created) else ReportedReleases(created, 0)


def _created(state: JobState) -> float | None:
    return None if state.created is None else state.created.at
