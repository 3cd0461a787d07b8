"""The event that reports a release. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.model.watermark import MAX_WATERMARK
from airflow_provider_ckpt.printable import each_text, one_line

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState


@dataclass(frozen=True)
class ReleaseEvent:
    """Payload of an event: ``checkpoint`` released rows.

    A consumer that reads the rows released after ``after`` and up to ``checkpoint`` reads each row once, even if events
    are lost or sent twice.

    Args:
        job_id: The job.
        checkpoint: Number of the checkpoint.
        after: Checkpoint of the event before, 0 for the first one.
        kind: checkpoint, savepoint or final. None if the journal no longer has it.
        released_at: Epoch seconds of the release, by the driver's clock.
        watermark: Event time up to which the released output is complete, in ISO 8601. None if the job has no watermark
            or is at its end.
        rows: Rows that the sinks released.
        sinks: Counts of each sink.
        late_rows: Rows that the job's queries have dropped as late since the job began.
        unfit_rows: Rows since the job began with an event time that the job's queries cannot use.
        malformed_rows: Rows since the job began that do not fit the schema of their source.
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
        found: dict[str, Any] = each_text(asdict(self), one_line)
        return found


def release_events(state: JobState, after: int, sink: str | None = None) -> Iterator[ReleaseEvent]:
    """Yield the remembered releases (the last 100) after checkpoint ``after`` with rows, in order.

    A release of one sink is reported as soon as that sink has released. A release of all sinks is reported when each of
    them has. The next ``after`` would otherwise skip the rows of a sink that releases later.

    Args:
        state: The job in its journal.
        after: Checkpoint of the last event.
        sink: uid of the only sink that counts. None: all sinks count.
    """
    for number in sorted(state.releases):
        if sink is None and number > state.last_released:
            return
        release = state.releases[number]
        sinks = {uid: dict(counts) for uid, counts in release.sinks.items() if sink in (None, uid)}
        rows = sum(counts.get("rows", 0) for counts in sinks.values())
        if number > after and rows:
            done = state.checkpoints.get(number)
            kind = None if done is None else done.kind
            late, malformed = sum(state.late_rows(number).values()), sum(state.malformed_rows(number).values())
            unfit, watermark = state.unfit_rows(number), _shown(state, number)
            yield ReleaseEvent(
                state.job_id, number, after, kind, release.at, watermark, rows, sinks, late, unfit, malformed
            )
            after = number


def _shown(state: JobState, checkpoint: int) -> str | None:
    come = state.watermark(checkpoint)
    if come is None or come == MAX_WATERMARK:
        return None
    return datetime.fromtimestamp(come / 1000, timezone.utc).isoformat()
