"""A last resort for a test that hangs where pytest-timeout cannot interrupt it, such as in native code.

pytest-timeout fails a test after its limit from a signal handler, which Python runs only between two bytecodes. GRACE
seconds later this plugin prints the stacks of all threads and ends the process. xdist reports that test as failed,
starts another worker and runs the other tests there, so the Makefile runs all suites under xdist.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Generator

import pytest

GRACE = 60.0


class HangGuard:
    """The pytest plugin. ``stderr``: a descriptor that pytest does not capture."""

    def __init__(self, stderr: int, grace: float = GRACE) -> None:
        self._stderr, self._grace = stderr, grace

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        seconds = limit(item)
        if seconds:
            faulthandler.dump_traceback_later(seconds + self._grace, exit=True, file=self._stderr)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()


def limit(item: pytest.Item) -> float:
    """Return the seconds that a test may take, from its marker, the command line or the configuration; 0: no limit."""
    marker = item.get_closest_marker("timeout")
    if marker is not None and (marker.args or "timeout" in marker.kwargs):
        return float(marker.args[0] if marker.args else marker.kwargs["timeout"])
    timeout = item.config.getoption("timeout", None)
    return float(item.config.getini("timeout") or 0) if timeout is None else float(timeout)


def install(config: pytest.Config) -> None:
    capture = config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        stderr = os.dup(2)
    grace = float(os.environ.get("CKPT_HANG_GRACE", GRACE))
    config.pluginmanager.register(HangGuard(stderr, grace), "ckpt-hang-guard")
