"""The words of a checkpoint."""

from __future__ import annotations

from typing import Literal

CheckpointKind = Literal["checkpoint", "final", "savepoint"]
"""A savepoint is that of a stop."""
CheckpointStatus = Literal["in progress", "completed", "released", "aborted"]
"""How far it has come."""
OperatorState = Literal["running", "partially finished", "finished"]
"""Of an operator's subtasks none, some, or all are finished."""
