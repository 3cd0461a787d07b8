"""Poll intervals and timeouts of the processes of a deployment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job.options.units import Duration, parse_duration

LOCAL_POLL = 0.1
REMOTE_POLL = 1.0
LOST_AFTER = 30.0
"""Seconds without a new beat after which a worker counts as lost. Flink's ``heartbeat.timeout`` is 50 s."""
SILENCE = 300.0
"""Seconds without a JobMaster after which a worker exits. Flink's ``taskmanager.registration.timeout`` is 5 min, too.
"""
BEAT = 2.0
"""Seconds after which a process without new messages writes its outbox again, to show that it is alive."""
LONGEST_POLL = 60.0


@dataclass(frozen=True)
class Timing:
    """The intervals and timeouts of one process, in seconds.

    Args:
        poll: Interval between two polls of the other processes. Each poll is a request to the storage.
        lost_after: Time without a new beat after which a worker counts as lost.
        silence: Time without a JobMaster after which a worker exits.
        rest: Maximum poll interval of a JobMaster while no message arrives; 0 for ``poll``.
    """

    poll: float
    lost_after: float = LOST_AFTER
    silence: float = SILENCE
    rest: float = 0.0

    @classmethod
    def of(cls, root: str) -> Timing:
        """Return the default timing for a root. A local root is polled more often, because its polls are cheap."""
        is_local = root.startswith("file:") or "://" not in root
        return cls(LOCAL_POLL if is_local else REMOTE_POLL)

    def with_overrides(self, chosen: Mapping[str, Duration | None], option_name: Callable[[str], str] = str) -> Timing:
        """Return a copy with the chosen values.

        Args:
            chosen: Values for some of ``poll``, ``lost_after`` and ``silence``. None for the default.
            option_name: Returns the user's name of an option, for error messages.

        Raises InvalidInputError for an invalid duration or a poll interval above LONGEST_POLL. Also for a timeout below
        twice the time of a beat and a poll.
        """
        given = {name: parse_duration(value, option_name(name)) for name, value in chosen.items() if value is not None}
        timing = replace(self, **given)
        if not 0 < timing.poll <= LONGEST_POLL:
            raise InvalidInputError(
                "{option} of {value:g} s cannot be used: give more than 0, and no more than {longest:g} s",
                option=option_name("poll"),
                value=timing.poll,
                longest=LONGEST_POLL,
            )
        least = 2 * (BEAT + timing.poll)
        for name in ("lost_after", "silence"):
            if getattr(timing, name) < least:
                raise InvalidInputError(
                    "{option} of {value:g} s cannot be used: a process gives a sign of life every {beat:g} s, and the "
                    "others poll every {poll:g} s, so a healthy process would count as lost. Give {least:g} s or more",
                    option=option_name(name),
                    value=getattr(timing, name),
                    poll=timing.poll,
                    beat=BEAT,
                    least=least,
                )
        return timing
