"""A MariaDB with TLS. Driver and executors connect only over TLS, and only to a server of the trusted authority."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from airflow_provider_ckpt.sinks.errors import SinkUnavailableError
from airflow_provider_ckpt.status.exit_code import ExitCode
from tests.sinks.databases import rows_of
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.sql_job import SqlJob
from tests.sinks.sql.world import staged
from tests.support.certificates import Authority
from tests.support.mariadb import NOT_INSTALLED, PASSWORD, MariaDB, is_installed

WITNESS = "INSERT INTO watch.seen VALUES (user())"
"""The server runs this statement in each new session, except for administrators."""


class TlsWorld(MariaDBWorld):
    """Database whose jobs connect as a separate user, which distinguishes their sessions from the test's own."""

    def __init__(self, server: MariaDB, database: str, settings: str) -> None:
        super().__init__(server, database)
        self.settings = settings
        for statement in (
            f"CREATE USER IF NOT EXISTS job IDENTIFIED BY '{PASSWORD}'",
            f"GRANT ALL ON `{database}`.* TO job",
            "GRANT INSERT ON watch.* TO job",
        ):
            self.run(statement)

    @property
    def url(self) -> str:
        place = f"127.0.0.1:{self.server.port}/{self.database.replace(' ', '%20')}"
        return f"mysql+pymysql://job:{PASSWORD}@{place}?{self.settings}"


def started(tls: Any, **settings: str) -> MariaDB:
    if not is_installed():
        pytest.skip(NOT_INSTALLED)
    return MariaDB(tls=tls, **settings)


def watch(server: MariaDB) -> None:
    with server.connect() as connection:
        cursor = connection.cursor()
        for statement in (
            "CREATE DATABASE IF NOT EXISTS watch",
            "CREATE TABLE IF NOT EXISTS watch.seen (user text)",
        ):
            cursor.execute(statement)
        cursor.execute("SET GLOBAL init_connect = %s", (WITNESS,))


@pytest.fixture(scope="module")
def encrypting(authority: Authority) -> Iterator[MariaDB]:
    with started(authority.signed("server")) as running:
        watch(running)
        yield running


class Sessions:
    """Counts of the jobs' sessions since this object was made: all, and encrypted. No other client uses TLS."""

    def __init__(self, world: TlsWorld) -> None:
        self._world, self._before = world, (0, 0)
        self._before = self.now()

    def now(self) -> tuple[int, int]:
        [(begun,)] = self._world.run("SELECT count(*) FROM watch.seen WHERE user LIKE 'job@%'")
        [(_, encrypted)] = self._world.run("SHOW GLOBAL STATUS LIKE 'Ssl_finished_accepts'")
        return begun - self._before[0], int(encrypted) - self._before[1]


def test_a_session_without_tls_is_counted_as_unencrypted(encrypting: MariaDB) -> None:
    """The counts that the tests below rely on distinguish encrypted sessions from unencrypted ones."""
    world = TlsWorld(encrypting, "plain", "ssl_disabled=true")
    world.table()
    sessions, sink = Sessions(world), world.new()
    sink.release([staged(sink, 1)], 1)
    begun, encrypted = sessions.now()
    assert begun > 3
    assert encrypted == 0


def test_stage_and_release_are_encrypted(encrypting: MariaDB, authority: Authority) -> None:
    world = TlsWorld(encrypting, "shop", f"ssl_ca={authority.keys.certificate}&ssl_verify_identity=true")
    world.table()
    sessions, sink = Sessions(world), world.new()
    sink.release([staged(sink, 1)], 1)
    begun, encrypted = sessions.now()
    assert begun > 3
    assert encrypted == begun
    assert world.rows() == rows_of(1)


@pytest.mark.spark
@pytest.mark.slow
def test_driver_and_executors_stage_and_release_over_tls(
    encrypting: MariaDB, authority: Authority, tmp_path: Path
) -> None:
    world = TlsWorld(encrypting, "whole", f"ssl_ca={authority.keys.certificate}&ssl_verify_identity=true")
    world.run("ALTER USER job REQUIRE SSL")
    sessions = Sessions(world)
    job = SqlJob(world, tmp_path)
    for number in range(3):
        job.put(number)
    job.write(create=True)
    try:
        with job.start() as run:
            assert run.wait(300) == ExitCode.FINISHED, run.tail()
    finally:
        world.run("ALTER USER job REQUIRE NONE")
    assert job.ids() == list(range(30))
    begun, encrypted = sessions.now()
    assert begun > 10
    assert encrypted == begun
    assert job.files_with_password() == []


def test_a_server_certificate_of_another_authority_is_refused(encrypting: MariaDB, tmp_path: Path) -> None:
    another = Authority(tmp_path, "another").keys.certificate
    world = TlsWorld(encrypting, "foreign", f"ssl_ca={another}")
    sessions, before = Sessions(world), world.tables()
    with pytest.raises(
        SinkUnavailableError,
        match=r"sink 'lake' of job 'orders' could not .*certificate verify failed",
    ):
        world.new()
    assert world.tables() == before
    assert sessions.now()[0] == 0


def test_a_certificate_of_another_host_is_refused_with_ssl_verify_identity(authority: Authority) -> None:
    with started(authority.signed("elsewhere", "DNS:elsewhere.example")) as server:
        watch(server)
        named = f"ssl_ca={authority.keys.certificate}"
        world = TlsWorld(server, "shop", f"{named}&ssl_verify_identity=true")
        world.table()
        with pytest.raises(SinkUnavailableError, match=r"IP address mismatch.*127\.0\.0\.1"):
            world.new()
        world.settings = named
        world.new()


@pytest.mark.parametrize("passes_over", [False, True])
def test_a_server_without_tls_is_refused(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, passes_over: bool
) -> None:
    """``passes_over``: the driver does not insist on TLS, as up to version 1.1."""
    if passes_over:
        connect = pymysql.connections.Connection._request_authentication

        def _request_authentication(self: Any) -> None:
            self._ssl_required = False
            self.client_flag &= ~pymysql.constants.CLIENT.SSL
            connect(self)

        monkeypatch.setattr(pymysql.connections.Connection, "_request_authentication", _request_authentication)
    with started(None, **{"skip-ssl": "1"}) as server:
        watch(server)
        world = TlsWorld(server, "shop", f"ssl_ca={authority.keys.certificate}")
        before = world.tables()
        with pytest.raises(SinkUnavailableError, match="SSL is required but the server doesn't support it"):
            world.new()
        assert world.tables() == before


def test_a_certificate_error_of_a_running_job_is_retryable(
    encrypting: MariaDB, authority: Authority, tmp_path: Path
) -> None:
    """The failure is retryable, because certificates are replaced on one machine after the other."""
    good = f"ssl_ca={authority.keys.certificate}"
    world = TlsWorld(encrypting, "changed", good)
    world.table()
    sink = world.new()
    handle = staged(sink, 1)
    world.settings = f"ssl_ca={Authority(tmp_path, 'another').keys.certificate}"
    with pytest.raises(
        SinkUnavailableError, match=r"could not release checkpoint 1: .*certificate verify failed"
    ) as raised:
        world.bind().release([handle], 1)
    assert raised.value.retryable
    world.settings = good
    assert world.bind().release([handle], 1) == {"rows": 2}
