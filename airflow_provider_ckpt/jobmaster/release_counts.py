"""Row counts of releases. The rows of each handle are counted once, even if the answer of a release was lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_provider_ckpt.sinks.sink import Handle

Counts = Mapping[str, int]
EARLIER_ROWS = "earlier_rows"
"""Key of the rows that an earlier call had already released, as the sink reports. They are included in ``rows``."""


def told_as(checkpoint: int, parts: Mapping[int, Counts]) -> dict[str, int]:
    """Add up the counts of several releases of one sink, as the counts of ``checkpoint``.

    Rows that were released as an earlier checkpoint are also counted under EARLIER_ROWS.

    Args:
        checkpoint: The newest of the checkpoints.
        parts: Counts of each release, by its checkpoint.
    """
    names = dict.fromkeys(["rows", *(name for counts in parts.values() for name in counts)])
    told = {name: sum(counts.get(name, 0) for counts in parts.values()) for name in names}
    earlier = sum(of.get("rows" if at < checkpoint else EARLIER_ROWS, 0) for at, of in parts.items())
    return {**told, EARLIER_ROWS: earlier} if earlier else told


class ReleaseCounts:
    """The row counts of the sinks of one run.

    If the answer to a release was lost, in this run or an earlier one, the sink skips those rows in the next call and
    does not count them again. The next call still gets their handles, because the journal does not know of the release.
    So their rows are counted from the handles of that call.
    """

    def __init__(self) -> None:
        self._counted: dict[str, set[str]] = {}

    def of(self, uid: str, handles: Iterable[Handle], counts: Counts) -> dict[str, int]:
        """Return the counts of one release, including rows that no answer has counted before.

        Checkpoints of one sink ascend, and so do the first handles of its calls. A handle that is missing from one call
        never comes again.

        Args:
            handles: All handles of the call, which are released now.
            counts: Counts that the sink returned.
        """
        rows = {str(one["id"]): one.get("rows") for one in handles}
        known = self._counted.get(uid, set())
        self._counted[uid] = set(rows)
        told = sum(number or 0 for handle_id, number in rows.items() if handle_id not in known)
        if "rows" not in counts or None in rows.values():
            return dict(counts)  # the handles of a user's own sink may lack row counts, so its counts are used
        earlier = max(0, told - counts["rows"])
        return {**counts, "rows": told, **({EARLIER_ROWS: earlier} if earlier else {})}
