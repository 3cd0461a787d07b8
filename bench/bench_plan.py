"""Time to plan a checkpoint: 10,000 / 100,000 / 200,000 subtasks over mixed exchanges.

    python bench/bench_plan.py

Target: at most 0.5 s for 100,000 subtasks, and linear in subtasks.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from airflow_provider_ckpt.coordinator.checkpoints.checkpoint_plan import plan
from airflow_provider_ckpt.model.graph import Exchange, JobEdge, JobGraph, JobVertex

LEVELS = 10
REPEATS = 5


def graph(subtasks: int) -> JobGraph:
    """Return a graph of ten levels. Its exchanges alternate between pointwise and all-to-all."""
    width = subtasks // LEVELS
    vertices = tuple(
        JobVertex(f"v{n}", (f"v{n}",), (f"v{n}",) if n == 0 else (), (), (), False, width) for n in range(LEVELS)
    )
    kinds: tuple[Exchange, Exchange] = ("pointwise", "all_to_all")
    edges = tuple(JobEdge(f"e{n}", f"v{n - 1}", f"v{n}", f"v{n}", kinds[n % 2]) for n in range(1, LEVELS))
    return JobGraph(vertices, edges)


def seconds(subtasks: int, share_finished: int) -> float:
    """Return the best time of some runs, with every ``share_finished``-th subtask of the first levels finished."""
    whole = graph(subtasks)
    finished = {name for vertex in whole.vertices[: LEVELS // 2] for name in vertex.subtasks[::share_finished]}
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        plan(whole, finished)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    print(f"{'subtasks':>10} {'seconds':>9} {'us/subtask':>11}")
    for subtasks in (10_000, 100_000, 200_000):
        took = seconds(subtasks, 2)
        print(f"{subtasks:>10,} {took:>9.3f} {took / subtasks * 1e6:>11.2f}")


if __name__ == "__main__":
    main()
