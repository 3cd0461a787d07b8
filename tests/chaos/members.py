"""The job ``jobs/parts.py`` with a JobMaster and workers as processes, and their supervisor."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path

from tests.support.processes import stands_still
from tests.support.storage_steps import StorageStep, stop_environ
from tests.support.waiting import wait_until
from tests.workers.world import PATIENCE, Member, World

GROUPS = {"readers": ("left", "right"), "others": ("clean", "both", "report")}


class PartsWorld(World):
    job, job_id = Path(__file__).parent / "jobs" / "parts.py", "parts"

    def __enter__(self) -> PartsWorld:
        return self

    def start(self, command: str, *flags: str, env: Mapping[str, str] | None = None) -> Member:
        return super().start(command, *flags, env={"CKPT_CHAOS_BASE": str(self.base), **(env or {})})


class Members:
    """The "master" and the workers of ``GROUPS``, by name. A process that failed is restarted."""

    def __init__(self, world: PartsWorld) -> None:
        self._world = world
        self._now: dict[str, Member] = {}
        self._started_under: dict[str, tuple[Member | None, int]] = {}
        """Member -> the master at its start, and the number of this master's "waiting" lines by then."""

    def start(self, name: str, step: StorageStep | None = None, when: str = "") -> Member:
        env = stop_environ(step, after=when == "after")
        self._started_under[name] = self._vacancies()
        if name in GROUPS:
            self._now[name] = self._world.worker(*GROUPS[name], **env)
        elif name == "planner":
            self._now[name] = self._world.start("plan", env=env)
        else:
            self._now[name] = self._world.start(name, env=env)
        return self._now[name]

    def start_all(self, victim: str, step: StorageStep, when: str) -> None:
        """Start the master and the workers, or only the planner if it is the victim. Others would wait or plan, too."""
        for name in ("planner",) if victim == "planner" else ("master", *GROUPS):
            self.start(name, *((step, when) if name == victim else ()))

    def kill_at_step(self, victim: str, *others: str) -> None:
        """Kill the victim once it has paused at its step. The other processes are supervised meanwhile."""
        member = self._now[victim]

        def poll() -> bool:
            self.restart_ended(but=victim)
            assert member.exit_code is None, f"{member} ended before the step\n{member.tail()}"
            return stands_still(member.pid)

        wait_until(poll, self.tails, seconds=PATIENCE, every=0.1)
        for name in (victim, *others):
            self._now[name].kill()
        assert member.exit_code == -signal.SIGKILL
        self._now.pop("planner", None)

    def restart_ended(self, but: str = "") -> None:
        """Restart ended processes as a supervisor does (docs/workers.md).

        Exit code 0 is final, unless the master reports that no worker runs the member's subtasks.
        """
        for name in ("master", *GROUPS):
            code = None if name not in self._now else self._now[name].exit_code
            if name != but and (name not in self._now or code not in (None, 0) or (code == 0 and self._vacant(name))):
                assert code in (None, 0, 1, -signal.SIGKILL), self._now[name].tail()
                self.start(name)

    def _vacancies(self) -> tuple[Member | None, int]:
        master = self._now.get("master")
        return master, 0 if master is None else len(master.lines("waiting"))

    def _vacant(self, name: str) -> bool:
        """Return whether the master has reported the member's subtasks as vacant since the member started."""
        if self._world.state().status == "FINISHED":
            return False
        master, count = self._vacancies()
        reported = self._started_under[name][1] if self._started_under[name][0] is master else 0
        messages = [] if master is None else [line["message"] for line in master.lines("waiting")[reported:count]]
        return any(re.search(rf"\b{vertex}/\d", text) for text in messages for vertex in GROUPS.get(name, ()))

    def finish(self) -> None:
        """Wait until all processes have ended with 0."""

        def poll() -> bool:
            self.restart_ended()
            return all(member.exit_code == 0 for member in self._now.values())

        wait_until(poll, self.tails, seconds=PATIENCE, every=0.1)

    def tails(self) -> str:
        return "\n".join(member.tail(1500) for member in self._world.members)
