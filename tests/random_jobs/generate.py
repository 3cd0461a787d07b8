"""The generator of definitions from seeds."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tests.random_jobs.definition import Definition, Lineage, SinkDef, SourceDef, TransformDef, pruned
from tests.random_jobs.features import add_features
from tests.random_jobs.functions import JOINS, KINDS

DELAY = 20
"""Seconds of a watermark.

Rows of one file are up to 15 s apart, and files 10 s. So only rows that are made late on purpose are late.
"""
STATELESS = ("union", "map", "filter", "explode", "pandas")
STATEFUL = tuple(name for name, kind in KINDS.items() if kind.stateful)
BY_ID = ("dedup", "dedup_in_time", "dedup_within", "pandas_first", "state_first")
IN_TIME = ("windows", "window_keys", "dedup_in_time", "dedup_within", "distinct")
MAKES_IDS = ("windows", "sessions")
AFTER_LAST = ("map", "union")
AFTER_LIMIT = ("map", "union", "explode", "pandas")


@dataclass(frozen=True)
class Node:
    """Properties of an operator's output.

    ``watermarks``: "none", "some" or "all" of its sources have one. ``sources``: those the output is made of; a query
    can name a source only once. ``made``: each row was made of several, so that ids of two such operators mean
    different things. ``unique``: an id identifies a row.
    """

    uid: str
    watermarks: str
    lineage: Lineage
    sources: frozenset[str]
    made: bool = False
    unique: bool = True


def definition(seed: int) -> Definition:
    rng = random.Random(seed)
    sources = _sources(rng)
    nodes = [Node(s.uid, "all" if s.watermark else "none", "rows", frozenset([s.uid])) for s in sources]
    transforms: list[TransformDef] = []
    top = _unite_all(rng, nodes, transforms) if rng.random() < 0.8 else rng.choice(nodes)
    for _ in range(rng.randint(1, 3)):
        base = top if rng.random() < 0.7 else rng.choice(nodes)
        made = _transform(rng, f"t{len(transforms)}", base, nodes)
        transforms.append(made[0])
        nodes.append(made[1])
        top = made[1]
    side = random.Random(seed * 23 + 7)  # a separate generator keeps the rest of a seed's job the same
    if side.random() < 0.35:
        top = _diamond(side, nodes, transforms)
    if side.random() < 0.6:
        top = _in_time(side, nodes, transforms) or top
    sinks = _sinks(rng, nodes, top)
    bounded_only = all(source.bounded for source in sources)
    drawn = Definition(
        seed=seed,
        sources=tuple(sources),
        transforms=tuple(transforms),
        sinks=tuple(sinks),
        mode=rng.choice(["auto", "streaming", "batch"]) if bounded_only else rng.choice(["auto", "streaming"]),
        interval=rng.choice([0.1, 0.3, 0.3, 1.0]),
        retained=rng.choice([1, 2, 3, 5]),
        at_start=rng.randint(0, 3),
    )
    return add_features(seed, pruned(drawn))


def _sources(rng: random.Random) -> list[SourceDef]:
    watermarks = rng.choice(["none", "some", "all", "all"])
    count = rng.choice([1, 2, 2, 2, 3])
    live = rng.random() < 0.75
    sinks = []
    for number in range(count):
        bounded = not (live and (number == count - 1 or rng.random() < 0.25))
        marked = watermarks == "all" or (watermarks == "some" and rng.random() < 0.5)
        sinks.append(
            SourceDef(
                uid=f"{'history' if bounded else 'live'}{number}",
                bounded=bounded,
                chain=rng.random() < 0.65,
                watermark=DELAY if marked else None,
                files=rng.randint(1, 5),
                rows=rng.randint(1, 6),
                first=rng.choice([0, 0, 100, 500]) if not bounded else 0,
                max_files=rng.choice([None, 1, 1, 2]),
            )
        )
    rng.shuffle(sinks)
    return sinks


def _unite_all(rng: random.Random, nodes: list[Node], transforms: list[TransformDef]) -> Node:
    """Add a first operator that reads all sources, because jobs whose sources never meet should be rarer."""
    kind = rng.choice([*STATELESS, *STATEFUL])
    if len(nodes) < 2 or kind in JOINS or not _fits(kind, "append", nodes):
        kind = "union"
    made, node = _make(rng, f"t{len(transforms)}", kind, nodes)
    transforms.append(made)
    nodes.append(node)
    return node


def _transform(rng: random.Random, uid: str, base: Node, nodes: list[Node]) -> tuple[TransformDef, Node]:
    others = [node for node in nodes if not node.sources & base.sources and node.lineage == "rows"]
    for _ in range(20):
        kind = rng.choice([*STATELESS, *STATEFUL, *STATEFUL, *(JOINS * 3 if others else ())])
        inputs = [base]
        if kind in JOINS:
            if not others:
                continue
            inputs.append(rng.choice(others))
        elif others and rng.random() < 0.3:
            inputs.append(rng.choice(others))
        if _fits(kind, "append", inputs):
            return _make(rng, uid, kind, inputs)
    return _make(rng, uid, "map", [base])


def _diamond(rng: random.Random, nodes: list[Node], transforms: list[TransformDef]) -> Node:
    """Add two paths from one operator that meet again. One path may be empty."""
    base = rng.choice([node for node in nodes if node.lineage == "rows"])
    # a query that unites several sources has no event time, and two consumers make it a query of its own
    apart = base if len(base.sources) == 1 else replace(base, watermarks="none")
    ways = [_add(rng, apart, nodes, transforms) for _ in range(rng.choice([1, 2, 2]))]
    if len(ways) == 1:
        ways.append(apart)
    kinds = [*STATELESS, *STATEFUL, *JOINS * 4, *["union"] * 4]
    kind = rng.choice([name for name in kinds if _fits(name, "append", ways)] or ["union"])
    made, node = _make(rng, f"t{len(transforms)}", kind, ways)
    transforms.append(made)
    nodes.append(node)
    return node


def _in_time(rng: random.Random, nodes: list[Node], transforms: list[TransformDef]) -> Node | None:
    """Add an operator that drops late rows, where event time is known: after an unread operator, or one source."""
    read = {uid for transform in transforms for uid in (*transform.inputs, *transform.others)}
    among = [node for node in nodes if node.watermarks == "all" and (node.uid not in read or len(node.sources) == 1)]
    fits = [(node, kind) for node in among for kind in IN_TIME if _fits(kind, "append", [node])]
    if not fits:
        return None
    base, kind = rng.choice(fits)
    made, node = _make(rng, f"t{len(transforms)}", kind, [base])
    transforms.append(made)
    nodes.append(node)
    return node


def _add(rng: random.Random, base: Node, nodes: list[Node], transforms: list[TransformDef]) -> Node:
    kinds = [*STATELESS, *STATELESS, "dedup", "dedup_in_time", "distinct", "windows"]
    kind = rng.choice([name for name in kinds if _fits(name, "append", [base])])
    made, node = _make(rng, f"t{len(transforms)}", kind, [base])
    transforms.append(made)
    nodes.append(node)
    return node


def _fits(kind_name: str, mode: str, inputs: list[Node]) -> bool:
    """Return whether the plain batch determines the output of the stream."""
    kind = KINDS[kind_name]
    lineages = {node.lineage for node in inputs}
    if "last" in lineages:
        return kind_name in AFTER_LAST and len(inputs) == 1
    if "limited" in lineages:
        return kind_name in AFTER_LIMIT
    if kind_name in BY_ID and not _unique(inputs):
        return False
    marks = _watermarks(inputs)
    return kind.needs == "any" or marks == kind.needs or (kind.needs == "alike" and marks != "some")


def _unique(inputs: list[Node]) -> bool:
    """Return whether ids stay unique.

    Rows of one source that arrive on two paths have the same ids, and perhaps other values.
    """
    apart = sum(len(node.sources) for node in inputs) == len(frozenset().union(*(node.sources for node in inputs)))
    made = len(inputs) > 1 and any(node.made for node in inputs)
    return apart and not made and all(node.unique for node in inputs)


def _watermarks(inputs: list[Node]) -> str:
    watermarks = {node.watermarks for node in inputs}
    return watermarks.pop() if len(watermarks) == 1 else "some"


def _make(rng: random.Random, uid: str, name: str, inputs: list[Node]) -> tuple[TransformDef, Node]:
    kind = KINDS[name]
    uids = tuple(node.uid for node in inputs)
    join = name in JOINS
    transform = TransformDef(
        uid=uid,
        kind=name,
        inputs=uids[:1] if join else uids,
        others=uids[1:] if join else (),
        chain=rng.random() < 0.75,
        output_mode=rng.choice(kind.modes),
    )
    lineage: Lineage = "last" if kind.emits == "last" else "limited" if name == "limit" else "rows"
    if lineage == "rows":
        lineage = next((node.lineage for node in inputs if node.lineage != "rows"), "rows")
    # the output of stateful Python and of sessions no longer has event time
    marks = "none" if name in ("pandas_first", "state_first", "sessions", "pandas") else _watermarks(inputs)
    sources = frozenset(uid for node in inputs for uid in node.sources)
    made = name in ("windows", "sessions", "window_keys") or any(node.made for node in inputs)
    return transform, Node(uid, marks, lineage, sources, made, _unique(inputs) or name in MAKES_IDS)


def _sinks(rng: random.Random, nodes: list[Node], top: Node) -> list[SinkDef]:
    sources = []
    for number in range(rng.choice([1, 1, 2, 2, 3])):
        node = top if number == 0 or rng.random() < 0.4 else rng.choice(nodes)
        sources.append(
            SinkDef(
                uid=f"out{number}",
                input=node.uid,
                lineage=node.lineage,
                format=rng.choice(["parquet", "parquet", "json"]),
                partitioned=rng.random() < 0.3,
                release=rng.choice(["every_checkpoint", "every_checkpoint", "every_checkpoint", "final"]),
            )
        )
    return sources
