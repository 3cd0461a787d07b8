"""What can be set about checkpoints and restarts; Flink's names and defaults (``execution.checkpointing.*``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from airflow_provider_ckpt.job.errors import BadOptionError
from airflow_provider_ckpt.job.option import Option
from airflow_provider_ckpt.job.options import BY_NAME, RunOptions
from airflow_provider_ckpt.model.mode import RuntimeMode

MAX_UNRELEASED = 16
"""So many completed checkpoints may wait for their release in every sink before no new one is taken: a job of which
nothing is released slows down. One sink of several, or one that a gate holds, slows nobody down."""

SOONER = 0.5
"""Of the interval, that a checkpoint may come before its time."""
LONGEST_SOONER = 1.0
"""Seconds, however long the interval is: each checkpoint is a commit in every sink."""


def _of_a_run(name: str) -> Any:
    """A field that is an option of a run, declared under ``name``: its default, and what it may be, are that one's."""
    return field(default=BY_NAME[name].default, metadata={"option": BY_NAME[name]})


@dataclass(frozen=True)
class CheckpointOptions:
    """Numbers, durations in seconds: those of a run, as it declares them, and what follows from its mode. Raises
    BadOptionError and BadDurationError for a value that cannot work."""

    interval: float = _of_a_run("checkpoint_interval")
    """Between two triggers, or a little less: see :attr:`sooner`. A missed trigger is not made up for."""
    min_pause: float = _of_a_run("min_pause")
    """Between the end of a checkpoint and the next trigger. A savepoint does not wait for it."""
    timeout: float = _of_a_run("checkpoint_timeout")
    """A checkpoint not acknowledged by then is given up; a stop not served by then has failed."""
    tolerable_failed: int = _of_a_run("tolerable_failed_checkpoints")
    """So many counted failures in a row are tolerated; one more fails the job over (of the savepoints of a
    stop: fails the stop)."""
    restart_attempts: int = _of_a_run("restart_attempts")
    """So often in a row a failed subtask begins again by itself; one more failure ends the run."""
    restart_delay: float = _of_a_run("restart_delay")
    """The first pause before that."""
    sink_timeout: float = _of_a_run("sink_timeout")
    """A sink's target that takes nothing for longer, though it may later, fails the run."""
    mode: RuntimeMode = "streaming"
    """In batch mode there is one checkpoint only, when every subtask is at its end of data."""

    @classmethod
    def of(cls, options: RunOptions, mode: RuntimeMode) -> CheckpointOptions:
        """Those of a run."""
        given = {name: getattr(options, option.name) for name, option in _declared()}
        return cls(**given, mode=mode)

    def __post_init__(self) -> None:
        for name, option in _declared():
            value = getattr(self, name)
            if not isinstance(value, (int, float)):
                raise BadOptionError(option=name, value=value, expected="a number")
            option.read(value, name)

    @property
    def sooner(self) -> float:
        """Seconds that a checkpoint may come before its time, behind a micro-batch of a live source: what that one did
        is released with it, and not an interval later."""
        return min(self.interval * SOONER, LONGEST_SOONER)

    @property
    def is_batch(self) -> bool:
        return self.mode == "batch"


def _declared() -> Iterator[tuple[str, Option]]:
    """What they are called here, and as what they are declared."""
    return ((one.name, one.metadata["option"]) for one in fields(CheckpointOptions) if "option" in one.metadata)
