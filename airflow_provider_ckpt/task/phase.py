"""The phases of a task (Flink: ExecutionState)."""

from __future__ import annotations

from enum import Enum


class TaskPhase(Enum):
    CREATED = "created"
    """Not deployed."""
    STARTING = "starting"
    """The query is being built or started, for the first time or with a changed plan."""
    WAITING = "waiting"
    """The query starts when all its input edges have shown their ends. Until then the task only appends barriers."""
    RUNNING = "running"
    PAUSING = "pausing"
    """The task has a pause command. The running or planned micro-batch ends first."""
    PAUSED = "paused"
    """The query is paused between two micro-batches."""
    ENDING = "ending"
    """The task reads nothing more. It fires the remaining windows and appends the end of data to the log."""
    AT_END_OF_DATA = "at end of data"
    """The log has the end of data. The task appends barriers until it must finish."""
    FINISHED = "finished"
    """The log has the end of partition."""
