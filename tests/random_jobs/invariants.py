"""What has to hold of every job, whatever it computes and whatever was done to it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.sinks.manifests import read_manifests
from tests.chaos.evidence import Evidence
from tests.random_jobs.between import Values
from tests.random_jobs.build import siblings
from tests.random_jobs.definition import Definition, SinkDef
from tests.random_jobs.expected import Expected, manifests, released, released_by_checkpoint
from tests.spark.harness import World

STAYS = (
    r"ckpt-root\.json|{0}|{0}/(journal|frozen|vertices|checkpoints|requests)"
    r"|{0}/(journal|frozen)/[^/.][^/]*\.json|{0}/frozen/late(/\w+\.json)?"
    r"|{0}/vertices/\w+(/0(/log(/[^/.][^/]*\.json)?)?)?"
    r"|{0}/checkpoints/chk-\d+(/_metadata)?"
)
"""What a finished job leaves under its root."""
KEPT = r"_ckpt/(\w+/\w+/manifests|~turns)/([^/.]+\.json|\.tmp-\w+)|\.probe-\w+"
"""What jobs leave in a folder beside what they release, and what killed writers leave there until it is old."""
LEFT_YET = re.compile(r"\.(tmp|probe)-\w+")
"""What killed writers leave in the root itself: it is collected by age, when nobody can be writing it any more."""


def finished_sources(state: JobState) -> set[str]:
    """Those whose functions nobody needs any more: dropped, or in a vertex that has finished."""
    found = {uid for uids in state.dropped.values() for uid in uids}
    vertices = state.plan.graph.vertices if state.plan is not None else ()
    for vertex in vertices:
        if f"{vertex.uid}/0" in state.finished:
            found |= set(vertex.sources)
    return found


def check_calls(finished: Iterable[str], called: Iterable[str]) -> None:
    again = sorted(set(finished) & set(called))
    assert not again, f"functions of finished sources were called: {again}"


def check_any_time(definition: Definition, world: World) -> None:
    """Also right after a crash: the journal replays, and manifests rise."""
    state = world.state()
    assert not state.damage, state.damage
    for sink in definition.sinks:
        numbers = [manifest.checkpoint for manifest in manifests(world.base, sink, world.job_id)]
        assert numbers == sorted(set(numbers)), f"{sink.uid}: checkpoints do not rise: {numbers}"


def check_siblings(definition: Definition, base: Path) -> None:
    """Sinks of one query show the same rows checkpoint by checkpoint (R24), whatever was dropped as late."""
    for sinks in siblings(definition):
        every = [sink for sink in sinks if sink.release == "every_checkpoint"]
        shown = [_shown(base, sink, definition.job_id) for sink in every]
        check_prefixes(sinks[0].input, shown)
        rows = [Counter(released(base, sink, definition.job_id)) for sink in sinks]
        assert all(one == rows[0] for one in rows), f"sinks of {sinks[0].input} hold other rows: {rows}"


def check_prefixes(uid: str, shown: Sequence[Mapping[int, Counter[Values]]]) -> None:
    """``shown``: for each sink what it has released, by checkpoint. One whose release failed, or went on for long, gets
    what it lacks together with what a later checkpoint covers (R9): so what each holds at a checkpoint that it has is
    compared, which has to rise with the checkpoints of all of them, and be the same at the same one."""
    held: list[tuple[int, Counter[Values]]] = []
    for one in shown:
        total: Counter[Values] = Counter()
        for checkpoint in sorted(one):
            total = total + one[checkpoint]
            held.append((checkpoint, total))
    held.sort(key=lambda at: (at[0], at[1].total()))
    for (before, fewer), (after, more) in pairwise(held):
        is_so = fewer == more if before == after else fewer <= more
        told = [{checkpoint: rows.total() for checkpoint, rows in one.items()} for one in shown]
        assert is_so, f"{uid}: sinks differ between checkpoints {before} and {after}: {told}"


def _shown(base: Path, sink: SinkDef, job_id: str) -> dict[int, Counter[Values]]:
    """A sink that replaces the rows of another job does so even by none."""
    rows = released_by_checkpoint(base, sink, job_id)
    return {checkpoint: Counter(of) for checkpoint, of in rows.items() if of}


def check_end(definition: Definition, world: World, expected: Expected, evidence: Evidence) -> None:
    """Of a job that has FINISHED."""
    state = world.state()
    assert state.status == "FINISHED", state.status
    assert state.last_released == state.last_completed, (state.last_released, state.last_completed)
    evidence.gather()
    evidence.check()
    check_any_time(definition, world)
    check_siblings(definition, world.base)
    for sink in definition.sinks:
        expected.check(sink, released(world.base, sink, world.job_id))
    expected.check_kept(world)
    check_nothing_left(definition, world)


def check_nothing_left(definition: Definition, world: World) -> None:
    under = [path for path in world.everything_under_root() if not LEFT_YET.fullmatch(path)]
    left = [path for path in under if not re.fullmatch(STAYS.format(world.job_id), path)]
    kept = [f"{world.job_id}/vertices/{uid}/0/partition" for uid in definition.kept]
    left = [path for path in left if not any(path == one or path.startswith(f"{one}/") for one in kept)]
    assert not left, f"left under the root: {left[:10]}"
    for sink in definition.sinks:
        check_folder(world.base / sink.place, world.job_id)


def check_folder(folder: Path, job_id: str) -> None:
    """Who lists it finds what the manifests name, of whichever jobs. Others may have staged what they go on with."""
    shown = {file.path for manifest in read_manifests(str(folder)) for file in manifest.files}
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    staged = rf"_ckpt/(?!{job_id}/)\w+/\w+/staging/.+"
    kept = {path for path in there if re.fullmatch(KEPT, path) or re.fullmatch(staged, path)}
    assert there - kept == shown, f"{folder}: files and manifests differ: {sorted((there - kept) ^ shown)[:5]}"
