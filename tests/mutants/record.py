"""A pytest plugin: what became of each test, as lines of JSON in the file that ``CKPT_MUTANTS_RECORD`` names. With
``CKPT_MUTANTS_GATEWAY`` (port and secret) Spark runs in a JVM that is there already."""

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
    """The tests' own environment is made by now: whoever starts Spark here takes the JVM that runs."""
    gateway = os.environ.get("CKPT_MUTANTS_GATEWAY", "").split()
    if gateway:
        os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = gateway
        _number_proxies_apart()


def _number_proxies_apart() -> None:
    """The JVM tells whichever Python it has now that it needs a proxy no more, which may be one of a Python before:
    under equal numbers a living one would go."""
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
