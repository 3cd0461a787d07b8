"""Jobs whose windows, session gaps, time bounds or deduplication intervals change between two runs.

State keeps rows together by them. So the change must be refused, and the job as it was must continue.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.jobmaster.recovery.restore import nothing_is_covered
from tests.random_jobs.changed import ChangedJob
from tests.random_jobs.definition import Definition, TransformDef
from tests.random_jobs.features import in_time
from tests.random_jobs.functions import GAP_SECONDS, JOIN_SECONDS, WINDOW_SECONDS
from tests.random_jobs.generate import DELAY, definition
from tests.random_jobs.in_process import MANY, Story
from tests.random_jobs.invariants import finished_sources
from tests.random_jobs.lateness import KEEPS_TIME, WINDOWS
from tests.random_jobs.schedule import RunPlan

SHOWN = r"(\d+ (second|minute)s?|INTERVAL '[^']*' SECOND)"
"""Length of time in the message of a refusal."""
LENGTHS = {"windows": WINDOW_SECONDS, "window_keys": WINDOW_SECONDS, "sessions": GAP_SECONDS}
BOUNDS = ("window", "slide", "gap", "time bound", "interval")


def bound_changes(seed: int) -> tuple[str, str, Definition, Definition]:
    """Draw a job and a change. Return the change's name, the uid of the changed operator, and both definitions."""
    wanted = random.Random(seed * 43 + 17).choice(BOUNDS)
    for number in count():
        before = in_time(definition(seed * 1_009 + number))
        if before.is_batch or not before.live:
            continue
        rng = random.Random(before.seed)
        for transform in rng.sample(before.transforms, len(before.transforms)):
            for name, after in _changes(rng, before, transform):
                if name == wanted:
                    return name, transform.uid, before, after
    raise AssertionError("unreachable")


def _changes(rng: random.Random, before: Definition, transform: TransformDef) -> Iterator[tuple[str, Definition]]:
    def changed(**bounds: int) -> Definition:
        after = replace(transform, **bounds)  # type: ignore[arg-type]
        return replace(before, transforms=tuple(after if other == transform else other for other in before.transforms))

    kind = transform.kind
    if kind in LENGTHS:
        yield "gap" if kind == "sessions" else "window", changed(span=LENGTHS[kind] * rng.choice([2, 3]))
    if kind in ("windows", "window_keys"):
        yield "slide", changed(slide=WINDOW_SECONDS // 2)
    if kind in ("join", "left_join") and _follows_time(before, transform.uid):
        yield "time bound", changed(span=JOIN_SECONDS * 2)
    if kind == "dedup_within":
        delay = DELAY * rng.choice([2, 3])
        sources = tuple(replace(source, watermark=delay) if source.watermark else source for source in before.sources)
        yield "interval", replace(before, sources=sources)


def _follows_time(before: Definition, uid: str) -> bool:
    """Return whether all rows of the operator have event time. Only then does state depend on the bound of a join."""
    source = next((candidate for candidate in before.sources if candidate.uid == uid), None)
    if source is not None:
        return source.watermark is not None
    transform = next(candidate for candidate in before.transforms if candidate.uid == uid)
    keeps = transform.kind in KEEPS_TIME | WINDOWS | {"join", "left_join"}
    return keeps and all(_follows_time(before, uid) for uid in (*transform.inputs, *transform.others))


class BoundChanged(ChangedJob):
    """A job with a changed bound (``name``) of the operator ``uid``.

    Raises AssertionError unless the change is refused with both lengths before anything is written. The job then
    continues as it was. A job of which no checkpoint covers a batch may restart from scratch with the new length.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        uid: str,
        before: Definition,
        after: Definition,
        first: RunPlan,
        base: Path,
    ) -> None:
        super().__init__(spark, before, after, first, base)
        self.name, self.uid = name, uid
        self._must_refuse = False
        self.outcome = "not begun"

    def run(self) -> Story:
        story = super().run()
        if self.outcome != "begun":
            return story
        refused = story.refused is not None
        self.outcome = "refused" if refused else "accepted"
        assert refused or not self._must_refuse, f"{self.uid} continued with another {self.name}"
        return story

    def _may_stop(self, plan: RunPlan, lines: int) -> bool:
        """Stop the first run when a checkpoint covers a batch. Before that the job would restart from scratch."""
        waits = not self._changed and lines <= MANY and nothing_is_covered(self.world.state())
        return super()._may_stop(plan, lines) and not waits

    def _between(self) -> None:
        super()._between()
        state = self.world.state()
        vertices = () if state.plan is None else state.plan.graph.vertices
        lives = any(self.uid in vertex.operators and f"{vertex.uid}/0" not in state.end_of_data for vertex in vertices)
        if not lives:  # the operator has ended, and nothing of it is compared
            self.outcome, self.after = "ended", self.before
            return
        self.outcome = "begun"
        # a source that has ended keeps its delay, and a union has that of its first source
        keeps = self.name == "interval" and bool(finished_sources(state))
        self._must_refuse = not (keeps or nothing_is_covered(state))

    def _refused(self, error: InvalidInputError, fresh: bool) -> str:
        if self._changed:
            lengths = {match[0] for match in re.finditer(SHOWN, str(error))}
            assert len(lengths) >= 2, f"the refusal does not show both lengths: {error}"
        return super()._refused(error, fresh)


def first_run(seed: int) -> RunPlan:
    """Draw the run before the change. Most of them complete a checkpoint."""
    rng = random.Random(seed * 47 + 19)
    return RunPlan("stop", rng.randint(2, 8)) if rng.random() < 0.8 else RunPlan("fault", rng.randint(40, 110))
