"""Kinds and statuses of a checkpoint."""

from __future__ import annotations

from typing import Literal

CheckpointKind = Literal["checkpoint", "final", "savepoint"]
"""The kind of a checkpoint. A stop takes a savepoint."""
CheckpointStatus = Literal["in progress", "completed", "released", "aborted"]
"""The progress of a checkpoint."""
OperatorState = Literal["running", "partially finished", "finished"]
"""The state of an operator: none, some, or all of its subtasks are finished."""
