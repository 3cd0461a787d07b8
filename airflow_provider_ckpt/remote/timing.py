"""How often the processes of a deployment look at each other, and how long they wait for one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from airflow_provider_ckpt.job.units import Duration, parse_duration
from airflow_provider_ckpt.remote.errors import LooksTooFarApartError, TooSoonLostError

LOCAL_POLL = 0.1
REMOTE_POLL = 1.0
LOST_AFTER = 30.0
"""Flink's ``heartbeat.timeout`` is 50 s; ANCHORS' users ask for less."""
SILENCE = 300.0
"""As Flink's ``taskmanager.registration.timeout``: 5 min."""
BEAT = 2.0
"""Seconds after which a process that has nothing to say shows that it lives."""
LONGEST_POLL = 60.0


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

    def with_chosen(self, chosen: Mapping[str, Duration | None], called: Callable[[str], str] = str) -> Timing:
        """``chosen``: some of ``poll``, ``lost_after`` and ``silence``, None for one that keeps its default.
        ``called``: their names where they were given. Raises InvalidInputError for what is no duration, and for a time
        that a process which lives and has nothing to say would exceed."""
        given = {name: parse_duration(value, called(name)) for name, value in chosen.items() if value is not None}
        made = replace(self, **given)
        if not 0 < made.poll <= LONGEST_POLL:
            raise LooksTooFarApartError(option=called("poll"), value=made.poll, longest=LONGEST_POLL)
        least = 2 * (BEAT + made.poll)
        for name in ("lost_after", "silence"):
            if getattr(made, name) < least:
                raise TooSoonLostError(
                    option=called(name), value=getattr(made, name), poll=made.poll, beat=BEAT, least=least
                )
        return made
