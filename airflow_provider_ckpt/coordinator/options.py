"""What can be set about checkpoints and restarts; Flink's names and defaults (``execution.checkpointing.*``)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.job.errors import BadOptionError
from airflow_provider_ckpt.job.kinds import FLAG
from airflow_provider_ckpt.job.options import OPTIONS, RunOptions

MAX_UNRELEASED = 16
"""So many completed checkpoints may wait for their release before no new one is taken: sinks that
cannot keep up slow the checkpoints down, and the journal keeps what a release needs."""


@dataclass(frozen=True)
class CheckpointOptions:
    """Numbers, durations in seconds: those of a run, as it declares them, and what follows from its mode. Raises
    BadOptionError and BadDurationError for a value that cannot work."""

    interval: float = RunOptions.checkpoint_interval
    """Between two triggers. A missed trigger is not made up for."""
    min_pause: float = RunOptions.min_pause
    """Between the end of a checkpoint and the next trigger. A savepoint does not wait for it."""
    timeout: float = RunOptions.checkpoint_timeout
    """A checkpoint not acknowledged by then is given up; a stop not served by then has failed."""
    tolerable_failed: int = RunOptions.tolerable_failed_checkpoints
    """So many counted failures in a row are tolerated; one more fails the job over (of the savepoints of a
    stop: fails the stop)."""
    restart_attempts: int = RunOptions.restart_attempts
    """So often in a row a failed subtask begins again by itself; one more failure ends the run."""
    restart_delay: float = RunOptions.restart_delay
    """The first pause before that."""
    periodic: bool = True
    """False (BATCH mode): one checkpoint only, when every subtask is at its end of data."""

    def __post_init__(self) -> None:
        for name, option in _DECLARED.items():
            value = getattr(self, name)
            if not isinstance(value, (int, float)):
                raise BadOptionError(option=name, value=value, expected="a number")
            option.read(value, name)
        FLAG.read(self.periodic, "periodic")


_NAMES = {
    "interval": "checkpoint_interval",
    "min_pause": "min_pause",
    "timeout": "checkpoint_timeout",
    "tolerable_failed": "tolerable_failed_checkpoints",
    "restart_attempts": "restart_attempts",
    "restart_delay": "restart_delay",
}
_DECLARED = {name: option for name, called in _NAMES.items() for option in OPTIONS if option.name == called}
