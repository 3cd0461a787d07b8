"""An upsert must not change the key of a row."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow
import pytest

from airflow_provider_ckpt.sinks.sink import SinkInput
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.test_review2 import setting  # noqa: F401
from tests.sinks.sql.world import Rows, stage

COLUMNS = (("at", "timestamp"), ("city", "string"))
TYPES = [pyarrow.timestamp("us", "UTC"), pyarrow.string()]
WINDOW = datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC)


def upsert_twice(maria: MariaDBWorld, **given: Any) -> list[Any]:
    sink = maria.bind(mode="upsert", key=["at"], **given)
    sink.check_rows(SinkInput("lake", COLUMNS))
    sink.prepare()
    for number, city in enumerate(("one", "two", "three"), 1):
        sink.release([stage(sink, Rows([[(WINDOW, city)]], COLUMNS, types=TYPES), number)], number)
    return maria.rows()


@pytest.mark.parametrize("create", [False, True])
def test_a_window_is_updated_with_the_default_of_mariadb_before_10_10(
    maria: MariaDBWorld,
    setting: Any,  # noqa: F811
    create: bool,
) -> None:
    """TIMESTAMP NOT NULL is there NOT NULL DEFAULT current_timestamp ON UPDATE current_timestamp."""
    setting("explicit_defaults_for_timestamp", "0")
    if not create:
        maria.table("at timestamp(6) NOT NULL PRIMARY KEY, city varchar(99)")
    assert upsert_twice(maria, create=create) == [(WINDOW.replace(tzinfo=None), "three")]


def test_a_window_is_updated_though_its_column_says_on_update(maria: MariaDBWorld) -> None:
    maria.table(
        "at timestamp(6) NOT NULL DEFAULT current_timestamp(6) ON UPDATE current_timestamp(6) PRIMARY KEY, "
        "city varchar(99)"
    )
    assert upsert_twice(maria) == [(WINDOW.replace(tzinfo=None), "three")]


def test_two_times_that_are_not_null_are_staged_with_the_default_of_mariadb_before_10_10(
    maria: MariaDBWorld,
    setting: Any,  # noqa: F811
) -> None:
    maria.table("at timestamp(6) NOT NULL, til timestamp(6) NOT NULL DEFAULT '2026-01-01', city text")
    setting("explicit_defaults_for_timestamp", "0")
    columns = (("at", "timestamp"), ("til", "timestamp"), ("city", "string"))
    sink = maria.bind()
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    types = [TYPES[0], TYPES[0], pyarrow.string()]
    handle = stage(sink, Rows([[(WINDOW, WINDOW, "a")]], columns, types=types), 1)
    assert sink.release([handle], 1) == {"rows": 1}
