"""A pytest plugin that records the result of each test, as lines of JSON in the file of ``CKPT_MUTANTS_RECORD``.

With ``CKPT_MUTANTS_GATEWAY`` (port and secret) Spark runs in an existing JVM.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from typing import Any

import pytest


def _note(**fields: str) -> None:
    with open(os.environ["CKPT_MUTANTS_RECORD"], "a") as file:
        file.write(json.dumps(fields) + "\n")


def pytest_collection_finish() -> None:
    """Set the gateway after the tests have set their environment, so that Spark uses the running JVM."""
    gateway = os.environ.get("CKPT_MUTANTS_GATEWAY", "").split()
    if gateway:
        os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = gateway
        _number_proxies_apart()


def _number_proxies_apart() -> None:
    """Give the proxies of each Python process numbers of their own.

    The JVM notifies its current Python when it no longer needs a proxy. The proxy may belong to an earlier Python. With
    equal numbers the current Python would then delete a proxy in use.
    """
    from py4j.java_gateway import PythonProxyPool

    begin = PythonProxyPool.__init__

    def begin_later(self: Any) -> None:
        begin(self)
        self.next_id = os.getpid() * 1_000_000

    PythonProxyPool.__init__ = begin_later


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed or report.when == "call":
        error = call.excinfo
        _note(
            test=item.nodeid,
            when=report.when,
            outcome=report.outcome,
            error="" if error is None else error.typename,
            message="" if error is None else str(error.value)[:400],
        )
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _note(test=report.nodeid, when="collect", outcome="failed", error="CollectError", message=str(report.longrepr))
