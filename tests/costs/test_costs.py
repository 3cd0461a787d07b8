"""Costs of waiting. An object store charges for each request, and docs/ shows the figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.remote.timing import LOCAL_POLL, REMOTE_POLL, Timing
from tests.costs import tables
from tests.costs.deployment import Idle
from tests.costs.driver import IdleDriver
from tests.costs.meter import Cost
from tests.docs.examples import ROOT


def per_hour(seconds: float) -> int:
    return round(3600 / seconds)


EACH_SECOND, EACH_BEAT, EACH_SIXTEENTH = per_hour(1), per_hour(2), per_hour(16)
"""Hourly rates. A reader of a quiet log checks every 16 s with a LIST and a HEAD whether the log was truncated."""


@pytest.mark.slow
def test_requests_of_an_idle_deployment_are_exact() -> None:
    """The counts are exact, so one additional request per poll in any loop fails the test."""
    parts = tables.processes(REMOTE_POLL)
    requests, workers = EACH_SECOND, per_hour(10)
    assert parts["a master"] == Cost(EACH_SECOND, requests + workers + EACH_BEAT)
    assert parts["… for each worker"] == Cost(EACH_SECOND, 0)
    journal = Cost(2 * EACH_SECOND, 0)  # the next entry and the last entry
    assert parts["a worker"] == Cost(EACH_SECOND, EACH_BEAT) + journal
    assert parts["… for each subtask that it runs"] == Cost(EACH_SECOND, 0)
    assert parts["… for each log that it reads"] == Cost(EACH_SECOND + EACH_SIXTEENTH, EACH_SIXTEENTH)


@pytest.mark.slow
def test_the_parts_add_up() -> None:
    parts = tables.processes(REMOTE_POLL)
    whole = parts["a master"] + (parts["… for each worker"] + parts["a worker"]) * 5
    whole += (parts["… for each subtask that it runs"]) * 5 + parts["… for each log that it reads"] * 4
    assert parts[tables.WHOLE] == whole


@pytest.mark.slow
def test_cheap_storage_is_polled_more_often_but_not_written() -> None:
    """Actions limited to once a second stay the same: lists and writes.

    New workers are listed each second, as in any deployment while a subtask has no worker.
    """
    near, far = tables.processes(LOCAL_POLL), tables.processes(REMOTE_POLL)
    times = REMOTE_POLL / LOCAL_POLL
    assert near["a master"].puts == far["a master"].puts + EACH_SECOND - per_hour(10)
    assert near["a worker"].puts == pytest.approx(far["a worker"].puts, rel=0.01)
    assert near["… for each worker"].gets == times * EACH_SECOND
    assert near["… for each subtask that it runs"] == far["… for each subtask that it runs"]
    assert near["… for each log that it reads"].gets <= (times + 1) * EACH_SECOND * 17 / 16


@pytest.mark.slow
def test_a_longer_poll_interval_costs_less() -> None:
    rare, usual = Idle(1, [[0]], Timing(5.0)).costs(), Idle(1, [[0]], Timing(1.0)).costs()
    assert all(rare[name].a_month < 0.85 * usual[name].a_month for name in usual)


@pytest.mark.slow
def test_an_idle_driver_polls_for_fences_and_requests_each_second() -> None:
    driver = IdleDriver()
    assert driver.cost() == Cost(EACH_SECOND, EACH_SECOND)
    assert driver.cost_of_a_read_of_its_own_logs() == Cost(0, 0)


def test_the_requests_of_outside_polls_are_counted() -> None:
    requests = {names: (cost.gets, cost.puts) for names, cost in tables.looks().items()}
    assert list(requests.values()) == [(120, 0), (720, 0), (960, 0), (840, 0), (960, 0), (1080, 0), (1432, 0)]


def test_prices_equal_the_price_list() -> None:
    assert Cost(1_000_000, 0).a_month == pytest.approx(730 * 0.40)
    assert Cost(0, 1_000_000).a_month == pytest.approx(730 * 5.00)


@pytest.mark.slow
@pytest.mark.parametrize("page", tables.TABLES.pages(), ids=lambda page: page.name)
def test_the_tables_in_the_docs_are_current(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text == tables.TABLES.renewed(text), "run `python -m tests.costs.tables`"


def test_every_cost_table_is_shown_in_the_docs() -> None:
    assert tables.TABLES.shown() == sorted(tables.TABLES.made)
    assert all((ROOT / "docs" / page).exists() for page in ("workers.md", "airflow.md"))
