"""Late rows: operators that may drop them, and rows that no operator may drop.

A stateful operator drops a row if event time has already passed it. Event time at the reading of a row depends on the
batches. At most it reflects the files of the row's source in front of the row. It follows the slowest source. So a row
that is in time by all these files is never dropped. No row of a bounded source is late.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.random_jobs.data import Row, files_of
from tests.random_jobs.definition import Definition, SinkDef, SourceDef, TransformDef
from tests.random_jobs.functions import WINDOW_SECONDS

KEEPS_TIME = frozenset({"union", "map", "filter", "explode", "dedup", "dedup_in_time", "dedup_within", "distinct"})
"""Kinds whose rows have the event time of their input."""
WINDOWS = frozenset({"windows", "window_keys"})
DROPS = frozenset({"dedup", "dedup_in_time", "dedup_within", "distinct", "join", *WINDOWS})
FIRSTS = frozenset({"pandas_first", "state_first"})
"""Kinds that ignore event time. Fewer input rows give fewer output rows, as with kinds that drop rows."""
BEHIND_DROPS = frozenset({"union", "map", "filter", "explode", "pandas"}) | DROPS | FIRSTS
BEHIND_WINDOWS = frozenset({"union", "filter", "explode", "dedup", "dedup_in_time", "dedup_within", "distinct"})
"""Kinds that leave the sum of a window unchanged."""


@dataclass(frozen=True)
class Path:
    """The path of rows to an operator.

    ``marked``: the sources whose event time is known there. ``drops``: these sources for each operator on the path that
    may drop rows. ``windows``: the operator on the path that counts rows, if any.
    """

    marked: frozenset[str]
    drops: frozenset[frozenset[str]] = frozenset()
    by_window: bool = True
    windows: TransformDef | None = None


class Incomparable(Exception):
    """More input rows do not mean more output rows, so the effect of late rows has no bounds."""


def paths(definition: Definition) -> Mapping[str, Path]:
    """Return operator -> path. Raises Incomparable."""
    source_paths = {
        source.uid: Path(frozenset([source.uid]) if source.watermark else frozenset()) for source in definition.sources
    }
    for transform in definition.transforms:
        source_paths[transform.uid] = _path_after(
            transform, [source_paths[uid] for uid in (*transform.inputs, *transform.others)]
        )
    return source_paths


def _path_after(transform: TransformDef, inputs: list[Path]) -> Path:
    kind = transform.kind
    marked = frozenset(uid for path in inputs for uid in path.marked)
    drops = frozenset(drop for path in inputs for drop in path.drops)
    windows = [path.windows for path in inputs if path.windows]
    if (drops and kind not in BEHIND_DROPS) or (windows and kind not in BEHIND_WINDOWS) or len(windows) > 1:
        raise Incomparable
    if marked and kind in ("sessions", "left_join"):
        raise Incomparable
    by_window = all(path.by_window for path in inputs) and len(windows) in (0, len(inputs))
    # in mode "complete" no state is dropped, and so no row is late
    if marked and kind in DROPS and transform.output_mode != "complete":
        # a window's row has the window's time, and is in time where its rows were
        drops |= {marked}
        by_window &= kind in WINDOWS or bool(windows)
    is_known = kind in KEEPS_TIME | WINDOWS | {"join"}
    counting = transform if kind in WINDOWS else windows[0] if windows else None
    return Path(marked if is_known else frozenset(), drops, by_window, counting)


def is_comparable(definition: Definition) -> bool:
    try:
        paths(definition)
    except Incomparable:
        return False
    return True


def path_to(definition: Definition, sink: SinkDef) -> Path | None:
    """Return the path to a sink; None if every row counts, late or not."""
    if definition.is_batch or not any(source.late for source in definition.sources):
        return None
    path = paths(definition)[sink.input]
    return path if path.drops else None


def sure_files(definition: Definition, path: Path) -> Mapping[str, list[list[Row]]]:
    """Return source -> its files without the rows that some operator on the path may drop."""
    files = {
        source.uid: files_of(definition.seed, number, source)
        for number, source in enumerate(sorted(definition.sources, key=lambda source_def: source_def.uid))
    }
    live = [source for source in definition.live if all(source.uid in drop for drop in path.drops)]
    return {
        source.uid: list(_sure(source, files[source.uid], _slowest(source, live, files), path.by_window))
        for source in definition.sources
    }


def _slowest(source: SourceDef, live: list[SourceDef], files: Mapping[str, list[list[Row]]]) -> float:
    """Return the latest event time that the other sources allow.

    Event time never passes a live source that every dropping operator waits for. Operators wait for a bounded source
    only until it ends.
    """
    return min((_passed(other, files[other.uid]) for other in live if other != source), default=float("inf"))


def _passed(source: SourceDef, files: list[list[Row]]) -> float:
    """Return the event time up to which rows are late after these files were read."""
    newest = max((row["second"] for rows in files for row in rows), default=None)
    return float("-inf") if newest is None else newest - (source.watermark or 0)


def _sure(source: SourceDef, files: list[list[Row]], slowest: float, by_window: bool) -> Iterator[list[Row]]:
    for number, rows in enumerate(files):
        if source.watermark is None or source.bounded:
            yield rows
            continue
        passed = min(_passed(source, files[:number]), slowest)
        yield [row for row in rows if _until(row["second"], by_window) > passed]


def _until(second: int, by_window: bool) -> int:
    """Return the event time at which a row is late: the end of its window, if only windows drop rows."""
    return second if not by_window else second // WINDOW_SECONDS * WINDOW_SECONDS + WINDOW_SECONDS
