"""What is told of releases: the rows of each handle once, whatever became of the answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_provider_ckpt.sinks.sink import Handle

Counts = Mapping[str, int]
EARLIER_ROWS = "earlier_rows"
"""Of ``rows``, those of which the sink says that an earlier call has released them, as an earlier checkpoint."""


def told_as(checkpoint: int, parts: Mapping[int, Counts]) -> dict[str, int]:
    """Of releases of one sink, by checkpoint, told as ``checkpoint``."""
    names = dict.fromkeys(["rows", *(name for counts in parts.values() for name in counts)])
    told = {name: sum(counts.get(name, 0) for counts in parts.values()) for name in names}
    earlier = sum(of.get("rows" if at < checkpoint else EARLIER_ROWS, 0) for at, of in parts.items())
    return {**told, EARLIER_ROWS: earlier} if earlier else told


class ReleaseCounts:
    """Of the sinks of one run. A call whose answer was lost, in this run or in one before, has released rows that no
    count of a sink speaks of any more: the next call passes over them. They are in what the next call is given, as the
    journal has not heard of them, and so they are told with that one."""

    def __init__(self) -> None:
        self._counted: dict[str, set[str]] = {}

    def of(self, uid: str, handles: Iterable[Handle], counts: Counts) -> dict[str, int]:
        """``handles``: all that the call was given, which are released now; ``counts``: what the sink said. For one
        sink checkpoints ascend, and so does where their handles begin: what is not among these never comes again."""
        rows = {str(one["id"]): one.get("rows") for one in handles}
        known = self._counted.get(uid, set())
        self._counted[uid] = set(rows)
        told = sum(number or 0 for handle_id, number in rows.items() if handle_id not in known)
        if "rows" not in counts or None in rows.values():
            return dict(counts)  # a sink of somebody's own, whose handles do not say: what it counts is told
        earlier = max(0, told - counts["rows"])
        return {**counts, "rows": told, **({EARLIER_ROWS: earlier} if earlier else {})}
