"""The memory of a sensor between its pokes and tries, in the task state store.

In ``mode="reschedule"`` every poke runs in another process, perhaps on another host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.triggers.stall_detector import LastProgress, StallDetector

if TYPE_CHECKING:
    from airflow_provider_ckpt.triggers.job_poll import JobPoll

KEY = "ckpt_sensor"


@dataclass
class SensorMemory:
    """State of a sensor for its next poke or try.

    Args:
        max_tries: ``max_tries`` of the task instance. Another number in the store shows that a user cleared the sensor.
            The stored values are then ignored.
        keeps_polls: True to store ``seen``, too.
        seen: Last progress of the job in the previous polls.
        next_of: (job id, number of the checkpoint that "next" means for the job). None before the first poll.
    """

    store: Any
    max_tries: int | None
    keeps_polls: bool
    seen: LastProgress = field(default_factory=LastProgress)
    next_of: tuple[str, int] | None = None

    @classmethod
    def of(cls, context: Mapping[str, Any], *, keeps_polls: bool) -> SensorMemory:
        store = context.get("task_state_store")
        max_tries = context["ti"].max_tries if "ti" in context else None
        memory = cls(store, max_tries, keeps_polls)
        value = store.get(KEY) if store is not None else None
        if isinstance(value, Mapping) and value.get("max_tries") == max_tries:  # a user can edit it in the UI
            memory._read(value)
        return memory

    def _read(self, value: Mapping[str, Any]) -> None:
        job_id, number = value.get("job_id"), value.get("next")
        if isinstance(job_id, str) and isinstance(number, int):
            self.next_of = (job_id, number)
        if self.keeps_polls:
            self.seen = LastProgress(_stall_detector(value), _stall_detector(value, "checkpoint_"))

    def keep(self, poll: JobPoll) -> None:
        """Write the changes that a later process needs, after a poll that does not end the wait."""
        seen = poll.seen if self.keeps_polls else self.seen
        if self.store is None or (seen, poll.next_of) == (self.seen, self.next_of):
            return
        self.seen, self.next_of = seen, poll.next_of
        job_id, number = self.next_of or (None, None)
        polls = {**_shown(seen.journal), **_shown(seen.checkpoint, "checkpoint_")} if self.keeps_polls else {}
        values = {"max_tries": self.max_tries, "job_id": job_id, "next": number, **polls}
        self.store.set(KEY, {name: value for name, value in values.items() if value is not None})


def _shown(detector: StallDetector, prefix: str = "") -> dict[str, Any]:
    return {f"{prefix}mark": list(detector.mark), f"{prefix}looks": detector.polls}


def _stall_detector(value: Mapping[str, Any], prefix: str = "") -> StallDetector:
    mark, polls = value.get(f"{prefix}mark"), value.get(f"{prefix}looks")
    return StallDetector(tuple(mark), polls) if isinstance(mark, list) and isinstance(polls, int) else StallDetector()
