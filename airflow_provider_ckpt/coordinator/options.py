"""What can be set about checkpoints; Flink's names and defaults (``execution.checkpointing.*``)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from airflow_provider_ckpt.coordinator.errors import InvalidCheckpointOptionError

MAX_UNRELEASED = 16
"""So many completed checkpoints may wait for their release before no new one is taken: sinks that
cannot keep up slow the checkpoints down, and the journal keeps what a release needs."""


@dataclass(frozen=True)
class CheckpointOptions:
    """Durations in seconds. Raises InvalidCheckpointOptionError for a value that cannot work."""

    interval: float = 30.0
    """Between two triggers. A missed trigger is not made up for."""
    min_pause: float = 0.0
    """Between the end of a checkpoint and the next trigger. A savepoint does not wait for it."""
    timeout: float = 600.0
    """A checkpoint not acknowledged by then is given up; a stop not served by then has failed."""
    tolerable_failed: int = 0
    """So many counted failures in a row are tolerated; one more fails the job over (of the savepoints of a
    stop: fails the stop)."""
    checkpoints_after_tasks_finish: bool = True
    """False: no checkpoint once a subtask is FINISHED, except the final one (FLIP-147 off)."""
    periodic: bool = True
    """False (BATCH mode): one checkpoint only, when every subtask is at its end of data."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            wrong = _complaint(field.name, value)
            if wrong:
                raise InvalidCheckpointOptionError(option=field.name, value=value, must=wrong)


def _complaint(name: str, value: object) -> str | None:
    if name in ("checkpoints_after_tasks_finish", "periodic"):
        return None if isinstance(value, bool) else "be true or false"
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return "be a finite number"
    if name == "tolerable_failed":
        return None if isinstance(value, int) and value >= 0 else "be a whole number, 0 or more"
    if name == "min_pause":
        return None if value >= 0 else "be 0 or more seconds"
    return None if value > 0 else "be more than 0 seconds"
