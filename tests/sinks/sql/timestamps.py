"""Table whose key is a timestamp."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow

from airflow_provider_ckpt.sinks.sink import SinkInput
from tests.sinks.databases import stage
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.world import Rows

WINDOWS = (("at", "timestamp"), ("city", "string"))
TYPES = [pyarrow.timestamp("us", "UTC"), pyarrow.string()]
WINDOW = datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.timezone.utc)


def upsert_one_key(maria: MariaDBWorld, **given: Any) -> list[Any]:
    sink = maria.bind(mode="upsert", key=["at"], **given)
    sink.check_rows(SinkInput("lake", WINDOWS))
    sink.prepare()
    for number, city in enumerate(("one", "two", "three"), 1):
        sink.release([stage(sink, Rows([[(WINDOW, city)]], WINDOWS, types=TYPES), number)], number)
    return maria.rows()
