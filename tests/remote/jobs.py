"""Jobs that the tests of this folder run."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from random import Random

from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.job_status import RuntimeMode
from tests.remote.cluster import Cluster, groups_of

_NUMBERS = itertools.count()


def two_sources(random: Random) -> JobGraph:
    """Return a graph: a (with two sources), parts (by split) -> b (with one source of its own, and a sink)."""
    raw, first = (("raw",), ()) if random.random() < 0.5 else ((), ("first",))
    a = JobVertex("a", ("a", "g"), ("a", "g"), ("a", "g"), first, bounded=True, parallelism=random.randint(1, 3))
    parts = JobVertex("parts", ("parts",), ("parts",), ("parts",), raw, True, random.randint(1, 3), splits=True)
    b = JobVertex("b", ("h", "b"), ("h",), ("h",), ("out",), bounded=True, parallelism=random.randint(1, 2))
    edges = (JobEdge("a__b", "a", "b", "b", "all_to_all"), JobEdge("parts__b", "parts", "b", "b", "all_to_all"))
    return JobGraph((a, parts, b), edges)


def two_by_split(random: Random) -> JobGraph:
    """Return a graph with two vertices that read by split: parts and more.

    a, parts (may have a sink), more -> b (with one source of its own, and a sink). more -> c (with a sink).
    """
    raw = ("raw",) if random.random() < 0.5 else ()
    a = JobVertex("a", ("a",), ("a",), ("a",), (), bounded=True)
    parts = JobVertex("parts", ("parts",), ("parts",), ("parts",), raw, True, random.randint(1, 3), splits=True)
    more = JobVertex("more", ("more",), ("more",), ("more",), (), True, random.randint(1, 2), splits=True)
    b = JobVertex("b", ("h", "b"), ("h",), ("h",), ("out",), bounded=True, parallelism=random.randint(1, 2))
    c = JobVertex("c", ("c",), (), (), ("first",), bounded=True)
    ways = (("a", "b"), ("parts", "b"), ("more", "b"), ("more", "c"))
    edges = tuple(JobEdge(f"{producer}__{other}", producer, other, other, "all_to_all") for producer, other in ways)
    return JobGraph((a, parts, more, b, c), edges)


def random_cluster(
    seed: int,
    faults: float,
    mode: RuntimeMode,
    *,
    rescales: float = 0.0,
    splits: int | None = None,
    make_graph: Callable[[Random], JobGraph] = two_sources,
) -> Cluster:
    random = Random(f"job {seed}")
    graph = make_graph(random)
    rows = {
        (str(subtask), uid): random.randint(0, 12)
        for vertex in graph.vertices
        if not vertex.splits
        for subtask in vertex.subtasks
        for uid in vertex.sources
    }
    count = splits or random.choice((8, 16, 40) if rescales else (1, 8, 16))
    by_split = [vertex.uid for vertex in graph.vertices if vertex.splits]
    named = {uid: {f"{uid[0]}{number}": number % 3 for number in range(count)} for uid in by_split}
    groups = list(groups_of(graph, random))
    name = f"remote-{os.getpid()}-{next(_NUMBERS)}"
    cluster = Cluster(graph, rows, mode, groups, name=name, seed=seed, faults=faults, splits=named)
    cluster.restarts, cluster.rescales = random.random() < 0.5, rescales
    return cluster


def one_worker(mode: RuntimeMode = "streaming", *, rows: int = 6, splits: int = 0, workers: int = 1) -> Cluster:
    """Return a cluster without faults that has not started: src/0 -> b/0.

    With ``splits``, the graph is src/0 .. src/2 -> b/0. With ``workers=1`` one worker runs all subtasks, else each
    subtask has its own worker.
    """
    parallelism = 3 if splits else 1
    src = JobVertex("src", ("src",), ("src",), ("src",), (), True, parallelism, splits=bool(splits))
    b = JobVertex("b", ("b",), (), (), ("out",), bounded=True)
    graph = JobGraph((src, b), (JobEdge("src__b", "src", "b", "b", "all_to_all"),))
    named = {"src": {f"s{number}": 2 for number in range(splits)}} if splits else None
    groups = [graph.subtasks] if workers == 1 else [(subtask,) for subtask in graph.subtasks]
    name = f"remote-{os.getpid()}-{next(_NUMBERS)}"
    cluster = Cluster(graph, {("src/0", "src"): rows}, mode, groups, name=name, seed=0, splits=named)
    cluster.supervises = False
    return cluster


def endless() -> Cluster:
    """Return a cluster that has not started: live/0, live/1 (unbounded) -> b/0, each in its own worker."""
    live = JobVertex("live", ("live",), ("live",), (), ("raw",), bounded=False, parallelism=2)
    b = JobVertex("b", ("b",), (), (), ("out",), bounded=False)
    graph = JobGraph((live, b), (JobEdge("live__b", "live", "b", "b", "all_to_all"),))
    groups = [(subtask,) for subtask in graph.subtasks]
    return Cluster(graph, {}, "streaming", groups, name=f"remote-{os.getpid()}-{next(_NUMBERS)}", seed=0)
