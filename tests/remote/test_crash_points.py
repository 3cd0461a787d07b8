"""Crash points: a process dies before or after each verb that changes the storage.

A new process of its kind takes its place. The job finishes, and each row arrives once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from tests.remote.cluster import Cluster
from tests.remote.jobs import one_worker
from tests.remote.process import SimulatedProcess

pytestmark = pytest.mark.slow

When = Literal["before", "after"]
Kind = Literal["planner", "master", "worker"]


def life(kind: Kind, dies: tuple[int, When] | None) -> int:
    """Run a small job whose first process of the kind dies at that verb.

    Return how many verbs this process executed.
    """
    cluster = one_worker(rows=3, splits=3)
    try:
        cluster.groups = (cluster.graph.subtasks[:2], cluster.graph.subtasks[2:])
        return _life(cluster, kind, dies)
    finally:
        cluster.world.delete()


def _life(cluster: Cluster, kind: Kind, dies: tuple[int, When] | None) -> int:
    make: dict[Kind, Callable[[], SimulatedProcess]] = {
        "planner": cluster.planner,
        "master": cluster.master,
        "worker": lambda: cluster.worker(cluster.groups[0]),
    }
    victim = make[kind]()
    victim.crashes_at = dies
    if kind != "planner":
        cluster.planner().run()
        cluster._watched.refresh()
    cluster.add(victim)
    if kind == "planner":
        victim.run()
    cluster.supervises = True
    cluster.finish(limit=6000)
    return victim.verbs


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["planner", "master", "worker"])
def test_a_process_dies_at_any_verb(kind: Kind, when: When) -> None:
    """Cover the first 12 verbs completely, and then every ninth: outboxes, barriers, releases and ends."""
    verbs = life(kind, None)
    assert verbs > 10
    for number in (*range(1, min(verbs, 13)), *range(13, verbs, 9)):
        try:
            life(kind, (number, when))
        except BaseException:
            print(f"{kind} died {when} verb {number}")
            raise
