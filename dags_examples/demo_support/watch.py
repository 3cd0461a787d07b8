"""A view of the job from outside, by its journal, as any other program can have it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from airflow_provider_ckpt import JobClient
from airflow_provider_ckpt.journal.state import JobState

Say = Callable[[str], None]


class DemoFailedError(Exception):
    """A demo that cannot continue. The message names the event that it waited for."""


class JobFollower:
    """A reporter of the job's progress during waits. ``alive`` returns None, or the reason why the wait is useless."""

    def __init__(
        self,
        root: Path,
        job_id: str,
        say: Say,
        alive: Callable[[], str | None],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = JobClient(root, job_id)
        self._say, self._alive = say, alive
        self._clock, self._sleep = clock, sleep
        self._told = 0

    def state(self) -> JobState:
        return self._client.read_state()

    def wait(
        self,
        what: str,
        condition: Callable[[JobState], bool],
        *,
        at_most: float = 300.0,
        each_checkpoint: Callable[[], object] = lambda: None,
        poll: float = 0.2,
    ) -> JobState:
        """Wait for a condition, and call ``each_checkpoint`` for every checkpoint that completes meanwhile.

        Raises DemoFailedError.
        """
        deadline, seen = self._clock() + at_most, None
        while True:
            state = self._refresh()
            seen = state.last_completed if seen is None else seen
            if condition(state):
                return state
            if seen < state.last_completed:
                seen = state.last_completed
                each_checkpoint()
            reason = self._alive() or ("it took too long" if self._clock() > deadline else None)
            if reason is not None:
                raise DemoFailedError(f"waited for {what}, but {reason}; the job is {state.status or 'not started'}")
            self._sleep(poll)

    def _refresh(self) -> JobState:
        state = self.state()
        self._tell(state)
        return state

    def _tell(self, state: JobState) -> None:
        for number, release in sorted(state.releases.items()):
            if number <= self._told:
                continue
            self._told = number
            rows = int(release.sinks.get("flights_table", {}).get("rows", 0))
            kind = state.checkpoints[number].kind if number in state.checkpoints else "checkpoint"
            if rows or kind != "checkpoint":
                self._say(f"  {kind:10} {number:3}  released {rows:7,} flights")
