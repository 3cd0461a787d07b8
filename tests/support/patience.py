"""A patient request to stage, and connections that fail once in a way that passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airflow_provider_ckpt.sinks.sink import StageRequest
from airflow_provider_ckpt.task.sink_wait import SinkWait
from airflow_provider_ckpt.testing.crash import When
from tests.sinks.databases import stage_request


class Waits:
    """Waits without a pause. ``causes``: the errors of a sink. ``on_wait``: called at each report."""

    def __init__(self, on_wait: Callable[[], None] = lambda: None) -> None:
        self.causes: list[str] = []
        self.on_wait = on_wait
        self.now = 0.0

    def request(self, batch: int) -> StageRequest:
        wait = SinkWait(
            300.0,
            is_over=lambda: False,
            check_fenced=lambda: None,
            report=self.report,
            clock=lambda: self.now,
            sleep=self.sleep,
        )
        return replace(stage_request(batch), patient=wait.call)

    def report(self, seconds: float, error: Exception) -> None:
        self.causes.append(str(error))
        self.on_wait()

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class FailsOnce:
    """Fails once, before or after change number ``at``, with ``error``.

    Args:
        reads: Beginnings of the statements that are no changes.
        at: Number of the change; None: it never fails.
        when: Before or after the change. The reply to it is lost then.
        error: What is raised.
    """

    def __init__(self, reads: tuple[str, ...], at: int | None, when: When, error: Exception) -> None:
        self.reads, self.at, self.when, self.error = reads, at, when, error
        self.changes = 0
        self.has_failed = False

    def step(self, name: str, act: Callable[[], Any]) -> Any:
        if name.lstrip().startswith(self.reads):
            return act()
        self.changes += 1
        fails = self.changes == self.at and not self.has_failed
        self.has_failed |= fails
        if fails and self.when == "before":
            raise self.error
        result = act()
        if fails:
            raise self.error
        return result
