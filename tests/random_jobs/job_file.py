"""The file of a random job as a driver loads it. The definition is stored with its data."""

from __future__ import annotations

import os
from pathlib import Path

from tests.random_jobs.build import build
from tests.random_jobs.definition import Definition

BASE = Path(os.environ["CKPT_RANDOM_BASE"])
RUN = os.environ["CKPT_RANDOM_RUN"]


def note(uid: str) -> None:
    with (BASE / f"calls-{RUN}").open("a") as calls:
        calls.write(f"{uid}\n")


job = build(Definition.from_json((BASE / "definition.json").read_text()), BASE, on_call=note)
