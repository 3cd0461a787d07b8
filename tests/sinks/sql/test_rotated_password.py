"""A password that is changed while a job has staged rows. The server refuses the login for a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest

from airflow_provider_ckpt.errors import TerminalError
from airflow_provider_ckpt.sinks.errors import SinkUnavailableError
from airflow_provider_ckpt.status.exit_code import ExitCode
from tests.sinks.databases import rows_of
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.sql_job import SqlJob
from tests.sinks.sql.world import staged
from tests.support.mariadb import PASSWORD
from tests.support.waiting import wait_until

OLD, NEW = "the0ldPW", "theNewPW"


class Shop:
    """A user "shop" of the server, with rights on one database."""

    def __init__(self, world: MariaDBWorld) -> None:
        self.world = world
        world.run("DROP USER IF EXISTS shop")
        world.run(f"CREATE USER shop IDENTIFIED BY '{OLD}'")
        world.run(f"GRANT ALL ON {world.schema}* TO shop")

    def rotate(self, password: str) -> None:
        self.world.run(f"ALTER USER shop IDENTIFIED BY '{password}'")

    def url(self, password: str = OLD) -> str:
        return self.world.url.replace("airflow:", "shop:").replace(PASSWORD, password)


@pytest.fixture
def shop(maria: MariaDBWorld) -> Shop:
    maria.table()
    return Shop(maria)


Change = Callable[[Shop], object]
CHANGES: dict[int, tuple[Change, Change]] = {
    1045: (lambda shop: shop.rotate(NEW), lambda shop: shop.rotate(OLD)),
    1044: (
        lambda shop: shop.world.run(f"REVOKE ALL ON {shop.world.schema}* FROM shop"),
        lambda shop: shop.world.run(f"GRANT ALL ON {shop.world.schema}* TO shop"),
    ),
    4151: (
        lambda shop: shop.world.run("ALTER USER shop ACCOUNT LOCK"),
        lambda shop: shop.world.run("ALTER USER shop ACCOUNT UNLOCK"),
    ),
    1820: (
        lambda shop: shop.world.run("ALTER USER shop PASSWORD EXPIRE"),
        lambda shop: shop.rotate(OLD),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("code", CHANGES)
def test_d21_a_refused_login_is_retryable_and_shows_the_servers_message(shop: Shop, code: int, setting: Any) -> None:
    setting("disconnect_on_expired_password", "0")
    change, undo = CHANGES[code]
    sink = shop.world.new(url=shop.url())
    handle = staged(sink, 1)
    change(shop)
    messages = []
    for act in (
        lambda: staged(sink, 2),
        lambda: sink.release([handle], 1),
        sink.last_released,
        lambda: shop.world.new(url=shop.url()),
    ):
        with pytest.raises(SinkUnavailableError, match=f"error {code}, ") as raised:
            act()
        messages.append(str(raised.value))
    assert OLD not in "".join(messages)
    assert code not in (1045, 1044) or all("Access denied for user 'shop'@" in message for message in messages)
    undo(shop)
    assert sink.release([handle], 1) == {"rows": 2}
    assert shop.world.rows() == rows_of(1)


@pytest.mark.slow
def test_d21_an_unknown_database_is_unreachable(shop: Shop) -> None:
    with pytest.raises(SinkUnavailableError, match="error 1049, Unknown database"):
        shop.world.bind(url=shop.world.url.replace(shop.world.database.replace(" ", "%20"), "none")).last_released()


@pytest.mark.parametrize("code", [1044, 1045, 1049, 1130, 1698, 1820, 1862, 3118, 3955])
def test_d21_each_login_error_is_retryable_and_shows_the_servers_message(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_provider_ckpt.sinks.sink import SinkContext
    from airflow_provider_ckpt.sinks.sql.address import Address
    from airflow_provider_ckpt.sinks.sql.bound_sql_sink import BoundSqlSink, open_database
    from airflow_provider_ckpt.sinks.sql.sql_sink import SqlSink

    def refuse(**parameters: Any) -> Any:
        raise pymysql.err.OperationalError(code, "the server's words")

    address = Address.of_url("mysql://shop:theOldPW@127.0.0.1/shop?ssl_disabled=true")
    assert address is not None
    sink = BoundSqlSink(
        SqlSink("orders", url="mysql://h/d").settings, SinkContext("j", "s"), open_database(address, refuse)
    )
    with pytest.raises(SinkUnavailableError, match=f"error {code}, the server's words"):
        sink.last_released()


@pytest.mark.slow
def test_d21_a_missing_right_for_a_statement_is_permanent(shop: Shop) -> None:
    """The errors 1142 and 1044 of a statement mean that the job's rights are incomplete."""
    sink = shop.world.new(url=shop.url())
    shop.world.run(f"REVOKE ALL ON {shop.world.schema}* FROM shop")
    shop.world.run(f"GRANT SELECT ON {shop.world.schema}* TO shop")
    with pytest.raises(TerminalError):
        staged(sink, 1)


class RotatedJob(SqlJob):
    shown = OLD

    @property
    def uri(self) -> str:
        return super().uri.replace("airflow:", "shop:").replace(PASSWORD, self.shown)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_d21_a_job_waits_for_a_rotated_password_and_the_next_run_resumes(maria: MariaDBWorld, tmp_path: Path) -> None:
    shop, job = Shop(maria), RotatedJob(maria, tmp_path)
    job.write(bounded=False, create=True)
    job.put(0)
    with job.start(sink_timeout=5) as run:
        wait_until(lambda: "orders" in maria.tables() and len(job.ids()) == 10, run.tail, seconds=200)
        shop.rotate(NEW)
        job.put(1)
        assert run.wait(200) == ExitCode.FAILED, run.tail()
        assert "error 1045, Access denied for user 'shop'@" in run.text()
        assert "does not take rows" not in run.text()
        assert OLD not in run.text()
    job.shown = NEW
    with job.start(drain_after=5) as run:
        assert run.wait(300) == ExitCode.FINISHED, run.tail()
    assert job.ids() == list(range(20))
    assert job.file_rows() == 20
    assert maria.staging_tables() == 0
