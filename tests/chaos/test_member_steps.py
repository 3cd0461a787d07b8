"""The job of ``test_steps.py`` with a JobMaster and workers, of which one or more are killed at a step.

``CKPT_CHAOS_MEMBERS``: number of the cases to run, drawn by ``CKPT_CHAOS_SEED`` (default: all).
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chaos.members import Members, PartsWorld
from tests.chaos.parts_steps import STEPS
from tests.chaos.results import Results, lose
from tests.chaos.retained import Outcome, check_retained, outcome

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

SEED = int(os.environ.get("CKPT_CHAOS_SEED", "1"))
BY_NAME = {step.name: step for step in STEPS}


@dataclass(frozen=True)
class Case:
    """A case: ``victim`` is killed right before or after the step. ``also``: processes killed at the same moment."""

    victim: str
    when: str
    step: str
    also: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{'+'.join((self.victim, *self.also))} {self.when} {self.step}"


CASES = (
    Case("planner", "before", "the plan is recorded"),
    Case("planner", "after", "right is frozen"),
    Case("readers", "before", "left has published"),
    Case("readers", "after", "left has published", ("master",)),
    Case("readers", "after", "right has published"),
    Case("readers", "before", "left is at its end"),
    Case("readers", "after", "right is at its end"),
    Case("others", "before", "clean has published"),
    Case("others", "after", "clean has published", ("readers",)),
    Case("others", "after", "clean is at its end", ("master",)),
    Case("others", "before", "both is at its end", ("readers", "master")),
    Case("others", "after", "both is at its end"),
    Case("others", "after", "report has published"),
    Case("others", "before", "report is at its end", ("master",)),
    Case("master", "after", "the end of left is known"),
    Case("master", "before", "the end of clean is known", ("others",)),
    Case("master", "after", "the end of both is known", ("readers",)),
    Case("master", "before", "the final checkpoint is triggered"),
    Case("master", "before", "the final checkpoint is completed", ("others",)),
    Case("master", "after", "the final checkpoint is completed"),
    Case("master", "after", "the first sink is released", ("readers", "others")),
    Case("master", "before", "the checkpoint is released"),
    Case("master", "before", "the job is FINISHED", ("others",)),
    Case("master", "after", "the job is FINISHED"),
    Case("master", "after", "the results of clean are deleted"),
)
COUNT = min(len(CASES), int(os.environ.get("CKPT_CHAOS_MEMBERS", len(CASES))))
CHOSEN = [CASES[place] for place in sorted(random.Random(SEED).sample(range(len(CASES)), COUNT))]


@pytest.mark.parametrize("case", CHOSEN, ids=str)
def test_a_batch_job_survives_kills_of_its_processes_at_a_step(case: Case, wanted: Outcome, tmp_path: Path) -> None:
    rng = random.Random(f"{SEED} {case}")
    steps = [f"CKPT_CHAOS_SEED={SEED} {case}"]
    with PartsWorld(tmp_path, "--mode", "batch") as world:
        members = Members(world)
        try:
            members.start_all(case.victim, BY_NAME[case.step], case.when)
            members.kill_at_step(case.victim, *case.also)
            # A living process may have checked a file before it reads it. Only a deleted file is sure to be noticed
            # then.
            steps += lose(Results(world.storage, world.root), rng, ("gone",))
            members.finish()
            assert world.state().status == "FINISHED"
            assert outcome(world).rows == wanted.rows
            assert not (world.base / "again.txt").exists(), (world.base / "again.txt").read_text()
            check_retained(world, wanted.files)
        except AssertionError as error:
            raise AssertionError(f"{'; '.join(steps)}\n{error}\n{members.tails()}") from error
        finally:
            print("; ".join(steps))
