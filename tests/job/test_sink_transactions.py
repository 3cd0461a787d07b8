"""Sinks that share a transaction: refused where that is impossible, before any data is written."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt import FileSink, PostgresSink, SqlSink
from airflow_provider_ckpt.job.errors import BadOperatorOptionError, InvalidJobError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.sink_transactions import transactions
from airflow_provider_ckpt.sinks.sink import Sink
from tests.job.jobs import read


def table(name: str, conn_id: str = "shop_db") -> PostgresSink:
    return PostgresSink(f"shop.{name}", conn_id=conn_id)


def job(*sinks: tuple[str, Sink, dict[str, Any]]) -> Job:
    made = Job("sketch")
    live = made.source(uid="live")(read)
    for uid, sink, given in sinks:
        made.sink(uid, live, sink, **given)
    return made


SHOP = {"transaction": "shop"}


def test_sinks_of_a_transaction_are_released_in_order_of_definition() -> None:
    made = job(
        ("orders", table("orders"), SHOP),
        ("alone", table("alone"), {}),
        ("lines", table("lines"), SHOP),
        ("b", SqlSink("b", conn_id="other"), {"transaction": "other"}),
        ("a", SqlSink("a", conn_id="other"), {"transaction": "other"}),
    )
    made.validate()
    assert transactions(made.sinks) == {
        "orders": ("orders", "lines"),
        "lines": ("orders", "lines"),
        "b": ("b", "a"),
        "a": ("b", "a"),
    }


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (("lines", table("lines", "other_db"), SHOP), "different connections"),
        (("lines", SqlSink("lines", conn_id="shop_db"), SHOP), "not in one database"),
        (("lines", FileSink("/out"), SHOP), "FileSink"),
        (("lines", table("lines"), {**SHOP, "release": "final"}), "release="),
        (("lines", table("lines"), {"transaction": "shpo"}), "no other sink"),
        (("lines", table("lines"), {}), "no other sink"),
    ],
)
def test_sinks_that_cannot_share_a_transaction_are_refused(other: Any, problem: str, turned: bool) -> None:
    sinks = [("orders", table("orders"), SHOP), other]
    with pytest.raises(InvalidJobError, match=problem):
        job(*(reversed(sinks) if turned else sinks)).validate()


@pytest.mark.parametrize("name", ["", " ", 1, True])
def test_a_transaction_needs_a_name(name: Any) -> None:
    with pytest.raises(BadOperatorOptionError, match="transaction"):
        job(("orders", table("orders"), {"transaction": name}))
