"""Invariants of every job, whatever it computes and whatever faults it meets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.sinks.file.manifests import read_manifests
from tests.chaos.evidence import Evidence
from tests.random_jobs.between import Values
from tests.random_jobs.build import siblings
from tests.random_jobs.definition import Definition, SinkDef
from tests.random_jobs.expected import Expected, manifests, released, released_by_checkpoint
from tests.spark.harness import World
from tests.support.books import books

STAYS = (
    r"ckpt-root\.json|{0}|{0}/(journal|frozen|vertices|checkpoints|requests)"
    r"|{0}/(journal|frozen)/[^/.][^/]*\.json|{0}/frozen/late(/\w+\.json)?"
    r"|{0}/vertices/\w+(/0(/log(/[^/.][^/]*\.json)?)?)?"
    r"|{0}/checkpoints/chk-\d+(/_metadata)?"
    r"|{0}/overview(/(current\.json|\.tmp-[\w-]+))?"
)
"""Files that a finished job leaves under its root."""
KEPT = r"(\w+/\w+/manifests|~owners)/([^/.]+\.json|\.tmp-[\w-]+)|\w+/\w+/(columns\.json|\.tmp-[\w-]+)|\.probe-\w+"
"""Files that jobs leave beside a folder, and those of killed writers until they are old."""
LEFT_YET = re.compile(r"\.(tmp|probe)-[\w-]+")
"""Files of killed writers in the root itself. They are collected by age, when no writer can be active."""


def finished_sources(state: JobState) -> set[str]:
    """Return the sources whose functions are no longer needed: dropped ones, and those of finished vertices."""
    dropped = {uid for uids in state.dropped.values() for uid in uids}
    vertices = state.plan.graph.vertices if state.plan is not None else ()
    for vertex in vertices:
        if f"{vertex.uid}/0" in state.finished:
            dropped |= set(vertex.sources)
    return dropped


def check_calls(finished: Iterable[str], called: Iterable[str]) -> None:
    again = sorted(set(finished) & set(called))
    assert not again, f"functions of finished sources were called: {again}"


def check_any_time(definition: Definition, world: World) -> None:
    """Check that the journal replays and manifests rise. This holds also right after a crash."""
    state = world.state()
    assert not state.damage, state.damage
    for sink in definition.sinks:
        numbers = [manifest.checkpoint for manifest in manifests(world.base, sink, world.job_id)]
        assert numbers == sorted(set(numbers)), f"{sink.uid}: checkpoints do not rise: {numbers}"


def check_siblings(definition: Definition, base: Path) -> None:
    """Check that sinks of one query show the same rows at each checkpoint (R24), whatever was dropped as late."""
    for sinks in siblings(definition):
        every = [sink for sink in sinks if sink.release == "every_checkpoint"]
        shown = [_shown(base, sink, definition.job_id) for sink in every]
        check_prefixes(sinks[0].input, shown)
        rows = [Counter(released(base, sink, definition.job_id)) for sink in sinks]
        assert all(row == rows[0] for row in rows), f"sinks of {sinks[0].input} hold other rows: {rows}"


def check_prefixes(uid: str, shown: Sequence[Mapping[int, Counter[Values]]]) -> None:
    """Check the rows that sinks of one query have released. ``shown``: checkpoint -> rows, for each sink.

    A sink whose release failed or was slow gets the missing rows with a later checkpoint (R9). So the totals at each
    checkpoint are compared. They must rise over the checkpoints of all sinks, and be equal at the same checkpoint.
    """
    held: list[tuple[int, Counter[Values]]] = []
    for sink_rows in shown:
        total: Counter[Values] = Counter()
        for checkpoint in sorted(sink_rows):
            total = total + sink_rows[checkpoint]
            held.append((checkpoint, total))
    held.sort(key=lambda at: (at[0], at[1].total()))
    for (before, fewer), (after, more) in pairwise(held):
        is_so = fewer == more if before == after else fewer <= more
        totals = [{checkpoint: rows.total() for checkpoint, rows in sink_rows.items()} for sink_rows in shown]
        assert is_so, f"{uid}: sinks differ between checkpoints {before} and {after}: {totals}"


def _shown(base: Path, sink: SinkDef, job_id: str) -> dict[int, Counter[Values]]:
    """Return checkpoint -> rows, without empty releases: a sink may replace another job's rows by none."""
    rows = released_by_checkpoint(base, sink, job_id)
    return {checkpoint: Counter(of) for checkpoint, of in rows.items() if of}


def check_end(definition: Definition, world: World, expected: Expected, evidence: Evidence) -> None:
    """Check a FINISHED job."""
    state = world.state()
    assert state.status == "FINISHED", state.status
    assert state.last_released == state.last_completed, (state.last_released, state.last_completed)
    evidence.gather()
    evidence.check()
    check_any_time(definition, world)
    check_siblings(definition, world.base)
    for sink in definition.sinks:
        expected.check(sink, released(world.base, sink, world.job_id), late_rows=world.late_rows())
    expected.check_kept(world)
    check_nothing_left(definition, world)


def check_nothing_left(definition: Definition, world: World) -> None:
    under = [path for path in world.everything_under_root() if not LEFT_YET.fullmatch(path)]
    left = [path for path in under if not re.fullmatch(STAYS.format(world.job_id), path)]
    kept = [f"{world.job_id}/vertices/{uid}/0/partition" for uid in definition.kept]
    left = [path for path in left if not any(path == folder or path.startswith(f"{folder}/") for folder in kept)]
    assert not left, f"left under the root: {left[:10]}"
    for sink in definition.sinks:
        check_folder(world.base / sink.place, world.job_id)


def check_folder(folder: Path, job_id: str) -> None:
    """Check that the folder holds exactly the files in the manifests of all jobs.

    Other jobs may have staged files there.
    """
    shown = {file.path for manifest in read_manifests(str(folder)) for file in manifest.files}
    existing = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert existing == shown, f"{folder}: files and manifests differ: {sorted(existing ^ shown)[:5]}"
    beside = books(folder)
    staged = rf"(?!{job_id}/)\w+/\w+/staging/.+"
    left = {str(path.relative_to(beside)) for path in beside.rglob("*") if path.is_file()}
    left = {path for path in left if not re.fullmatch(KEPT, path) and not re.fullmatch(staged, path)}
    assert not left, f"{beside}: left: {sorted(left)[:5]}"
