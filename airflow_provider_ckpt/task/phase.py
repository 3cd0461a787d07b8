"""Where a task is between being made and its end (Flink: ExecutionState)."""

from __future__ import annotations

from enum import Enum


class TaskPhase(Enum):
    CREATED = "created"
    """Not deployed."""
    STARTING = "starting"
    """Its query is being built, or started: the first time, or again under another plan."""
    WAITING = "waiting"
    """Its query starts when all its input edges have shown their end. It takes barriers."""
    RUNNING = "running"
    PAUSING = "pausing"
    """Told to stand still: the micro-batch that runs, or is planned, comes first."""
    PAUSED = "paused"
    """Stands still between two micro-batches."""
    ENDING = "ending"
    """Nothing more is read: what is left are windows to fire, and the end in the log."""
    AT_END_OF_DATA = "at end of data"
    """The end is in the log. It takes barriers until it is told to finish."""
    FINISHED = "finished"
    """End of partition is in the log."""
