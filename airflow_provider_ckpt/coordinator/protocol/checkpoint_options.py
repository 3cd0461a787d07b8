"""The options of checkpoints and restarts, with Flink's names and defaults (``execution.checkpointing.*``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from airflow_provider_ckpt.job.errors import BadOptionError
from airflow_provider_ckpt.job.options.option import Option
from airflow_provider_ckpt.job.options.run_options import BY_NAME, RunOptions
from airflow_provider_ckpt.model.job_status import RuntimeMode

MAX_UNRELEASED = 16
"""Maximum backlog of completed checkpoints that no sink has released; then only savepoints are triggered."""

EARLY_FRACTION = 0.5
"""Maximum fraction of the interval by which a checkpoint may come early."""
MAX_EARLY = 1.0
"""Maximum seconds by which a checkpoint may come early, because each checkpoint is a commit in every sink."""


def _run_option(name: str) -> Any:
    return field(default=BY_NAME[name].default, metadata={"option": BY_NAME[name]})


@dataclass(frozen=True)
class CheckpointOptions:
    """The options of a run that concern checkpoints and restarts. Durations are in seconds.

    Raises BadOptionError for a value that is no number, or out of the option's range.
    """

    interval: float = _run_option("checkpoint_interval")
    """Time between two triggers, or up to :attr:`max_early` seconds less. A missed trigger is not repeated."""
    min_pause: float = _run_option("min_pause")
    """Minimum time from the end of a checkpoint to the next trigger. A savepoint ignores this pause."""
    timeout: float = _run_option("checkpoint_timeout")
    """Maximum time until all subtasks acknowledge a checkpoint, and until a stop has its savepoint."""
    tolerable_failed: int = _run_option("tolerable_failed_checkpoints")
    """Maximum failed checkpoints in a row. The next failure ends the run as RESTARTING, or fails a stop."""
    restart_attempts: int = _run_option("restart_attempts")
    """Maximum restarts in a row of one subtask. The next failure ends the run."""
    restart_delay: float = _run_option("restart_delay")
    """The first pause before a restart of a subtask."""
    sink_timeout: float = _run_option("sink_timeout")
    """Maximum time for which a sink's target may accept nothing. After that the run ends."""
    mode: RuntimeMode = "streaming"
    """Streaming or batch. Batch mode has only one checkpoint, when every subtask is at its end of data."""

    @classmethod
    def of(cls, options: RunOptions, mode: RuntimeMode) -> CheckpointOptions:
        """Return the checkpoint options of a run."""
        values = {name: getattr(options, option.name) for name, option in _declared()}
        return cls(**values, mode=mode)

    def __post_init__(self) -> None:
        for name, option in _declared():
            value = getattr(self, name)
            if not isinstance(value, (int, float)):
                raise BadOptionError(option=name, value=value, expected="a number")
            option.read(value, name)

    @property
    def max_early(self) -> float:
        """Return how many seconds early a checkpoint may come, to release a live source's batch that has just ended."""
        return min(self.interval * EARLY_FRACTION, MAX_EARLY)

    @property
    def is_batch(self) -> bool:
        return self.mode == "batch"


def _declared() -> Iterator[tuple[str, Option]]:
    return (
        (declared.name, declared.metadata["option"])
        for declared in fields(CheckpointOptions)
        if "option" in declared.metadata
    )
