"""What is told of a release. Pure."""

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
    """``checkpoint`` released rows. ``after``: the checkpoint of the event before, 0 for the first one; whoever reads
    what was released behind ``after`` up to ``checkpoint`` reads each row once, also if events were lost or told twice.

    ``kind``: checkpoint, savepoint or final, None if the journal has forgotten. ``released_at``: epoch seconds, of the
    driver's clock. ``watermark``: ISO 8601, event time up to which what is released is complete; None if the job has
    none, none yet, or is at its end. ``sinks``: what each sink counted.
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
    """Rows that the job's queries have dropped as late since it began."""
    unfit_rows: int
    """Rows with an event time that the job's queries cannot go by, since it began."""
    malformed_rows: int
    """Rows since the job began that do not fit the schema of their source."""

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = each_text(asdict(self), one_line)
        return found


def release_events(state: JobState, after: int, sink: str | None = None) -> Iterator[ReleaseEvent]:
    """Of the remembered releases (the last 100) behind checkpoint ``after`` with which ``sink``, or any, released rows,
    in order. Of one sink as soon as it has released; of all when each of them has: one that comes later would be behind
    ``after`` already."""
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
