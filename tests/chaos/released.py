"""Released output of a chaos job's sinks, compared with its input."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyarrow import parquet

from airflow_provider_ckpt.sinks.file.manifests import Manifest, read_manifests
from tests.chaos.data import key
from tests.chaos.world import World

Row = dict[str, Any]


def manifests(world: World, sink: str) -> list[Manifest]:
    return read_manifests(str(world.base / sink), world.job_id, sink)


def rows(world: World, sink: str) -> list[Row]:
    """Return all released rows, in the order of checkpoints, batches and files."""
    return [
        row
        for manifest in manifests(world, sink)
        for file in manifest.files
        for row in read_rows(world.base / sink / file.path)
    ]


def read_rows(path: Path) -> list[Row]:
    if path.suffix == ".parquet":
        return list(parquet.ParquetFile(path).read().to_pylist())
    return [json.loads(line) for line in path.read_text().splitlines()]


def missing(world: World) -> int:
    """Return the number of input rows that some sink has not released; for the wait before the drain."""
    return max(_MISSING[world.variant.counts](world, sink) for sink in world.variant.sinks)


def _missing_rows(world: World, sink: str) -> int:
    return len(set(world.data.ids) - {row["id"] for row in rows(world, sink)})


def _missing_counts(world: World, sink: str) -> int:
    return len(world.data.ids) - sum(int(row["n"]) for row in last_per_key(world, sink).values())


_MISSING: dict[bool, Callable[[World, str], int]] = {False: _missing_rows, True: _missing_counts}


def last_per_key(world: World, sink: str) -> dict[int, Row]:
    return {row["k"]: row for row in rows(world, sink)}


def check_exactly_once(world: World) -> None:
    """Check the final output: every input row once in every sink, and no unreleased row visible."""
    for sink in world.variant.sinks:
        if world.variant.counts:
            _check_counts(world, sink)
        else:
            _check_rows(world, sink, Counter(world.data.ids))
        check_visible_files(world, sink)
    check_sinks_agree(world)


def check_no_duplicates(world: World) -> None:
    """Check that no row was released twice. This holds at any time, also right after a kill."""
    if world.variant.counts:
        for sink in world.variant.sinks:
            _check_history_of_counts(world, sink)
        return
    for sink in world.variant.sinks:
        twice = [(n, times) for n, times in Counter(row["id"] for row in rows(world, sink)).items() if times > 1]
        assert not twice, f"{sink}: released more than once (id, times): {twice[:10]}"


def _check_rows(world: World, sink: str, wanted: Counter[int]) -> None:
    got = Counter(int(row["id"]) for row in rows(world, sink))
    lost, extra = wanted - got, got - wanted
    assert not lost, f"{sink}: {sum(lost.values())} rows lost, such as {sorted(lost)[:10]}"
    assert not extra, f"{sink}: {sum(extra.values())} rows too many, such as {sorted(extra)[:10]}"


def _check_counts(world: World, sink: str) -> None:
    """Check that state equals output: a key's last value is right, and each of its changes was released once."""
    _check_history_of_counts(world, sink)
    wanted: dict[int, Row] = {}
    for number in world.data.ids:
        row = wanted.setdefault(key(number), {"k": key(number), "n": 0, "total": 0})
        row["n"] += 1
        row["total"] += number
    got = last_per_key(world, sink)
    wrong = [k for k in wanted.keys() | got.keys() if wanted.get(k) != got.get(k)]
    told = [f"released {got.get(k)}, expected {wanted.get(k)}" for k in sorted(wrong)[:5]]
    assert not wrong, f"{sink}: {len(wrong)} keys are wrong, such as {told}"


def _check_history_of_counts(world: World, sink: str) -> None:
    seen: dict[int, int] = {}
    for row in rows(world, sink):
        before = seen.get(row["k"], 0)
        assert row["n"] > before, f"{sink}: key {row['k']} went from {before} to {row['n']}"
        seen[row["k"]] = row["n"]


def visible_files(world: World, sink: str) -> set[str]:
    """Return the files that a reader without knowledge of manifests sees."""
    folder = world.base / sink
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in found if not any(part.startswith(("_", ".")) for part in path.parts)}


def check_visible_files(world: World, sink: str) -> None:
    visible = visible_files(world, sink)
    released = {file.path for manifest in manifests(world, sink) for file in manifest.files}
    assert visible == released, f"{sink}: visible and released differ: {sorted(visible ^ released)[:5]}"


def check_sinks_agree(world: World) -> None:
    """Check that each checkpoint released the same rows in all sinks of the vertex, or in none (R24)."""
    if world.variant.job != "mixed.py":
        return
    per_sink = [{m.checkpoint: m.rows for m in manifests(world, sink)} for sink in world.variant.sinks]
    assert all(counts == per_sink[0] for counts in per_sink), f"rows by checkpoint differ: {per_sink}"
