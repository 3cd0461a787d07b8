"""How often the processes of a deployment look at each other, and how long they wait for one another."""

from __future__ import annotations

from dataclasses import dataclass

LOCAL_POLL = 0.1
REMOTE_POLL = 1.0
LOST_AFTER = 30.0
"""Flink's ``heartbeat.timeout`` is 50 s; ANCHORS' users ask for less."""
SILENCE = 300.0
"""As Flink's ``taskmanager.registration.timeout``: 5 min."""


@dataclass(frozen=True)
class Timing:
    """In seconds. ``poll``: from one look at the others to the next; each is a request to the storage. ``lost_after``:
    without a sign of life a worker counts as lost. ``silence``: without a JobMaster a worker leaves. ``rest``: while
    nothing is said a JobMaster looks ever less often, down to once in so many; 0: it goes on as often."""

    poll: float
    lost_after: float = LOST_AFTER
    silence: float = SILENCE
    rest: float = 0.0

    @classmethod
    def of(cls, root: str) -> Timing:
        """``root``: its URI: where a look is cheap it is taken more often."""
        is_local = root.startswith("file:") or "://" not in root
        return cls(LOCAL_POLL if is_local else REMOTE_POLL)
