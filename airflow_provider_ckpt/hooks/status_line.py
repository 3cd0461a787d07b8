"""The driver's status lines: ``CKPT {json}`` on its standard output, one line each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FREQUENT = frozenset({"checkpoint", "released", "aborted"})
"""Kinds that come with every checkpoint, for as long as the job runs."""

# A progress bar on standard error may stand in front, and log4j has no say in what comes between.
_LINE = re.compile(r"(?:^|.*\s)CKPT (\{.*\})\s*$")


@dataclass(frozen=True)
class StatusLine:
    """``kind``: refused, failed, fenced, finished and stopped end a run; the others tell of its progress
    (a driver may know kinds that this version does not)."""

    kind: str
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def quiet(self) -> bool:
        """For the pointer, not for the log."""
        return self.data.get("quiet") is True


def parse(line: str) -> StatusLine | None:
    """None if the line is none of the driver's: somebody else's output is never taken for a status."""
    if "CKPT {" not in line or not (match := _LINE.match(line)):
        return None
    try:
        data = json.loads(match.group(1))
    except ValueError:
        return None
    if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
        return None
    return StatusLine(data["kind"], str(data.get("message") or data["kind"]), data)
