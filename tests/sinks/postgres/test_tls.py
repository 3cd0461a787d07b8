"""A server with TLS. Driver and executors connect only over TLS, and only to a server of the trusted authority."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from airflow_provider_ckpt.sinks.errors import SinkUnavailableError
from airflow_provider_ckpt.status.exit_code import ExitCode
from tests.sinks.databases import rows_of
from tests.sinks.postgres.postgres_job import PostgresJob
from tests.sinks.postgres.world import World, staged
from tests.support.certificates import Authority
from tests.support.postgres import NOT_INSTALLED, PostgreSQL, initdb

_AUTHORIZED = re.compile(
    r"connection authorized: user=airflow .*?application_name=(ckpt\S*(?: \S+)*?)( SSL enabled.*)?$"
)


@pytest.fixture(scope="module")
def encrypting(authority: Authority) -> Iterator[PostgreSQL]:
    if initdb() is None:
        pytest.skip(NOT_INSTALLED)
    with PostgreSQL(tls=authority.signed("server"), log_connections="on") as running:
        yield running


def world_of(server: PostgreSQL, certificate: Path, number: int) -> World:
    """Return a world whose jobs verify the server's certificate and its host name."""
    made = World(server, f"tls {number}", f"ckpt tls {number}", f"?sslmode=verify-full&sslrootcert={certificate}")
    with psycopg.connect(made.url.partition("?")[0], autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{made.schema}"'.encode())
    return made


def connections(server: PostgreSQL) -> dict[str, set[bool]]:
    """Parse the server's log: application → whether its connections were encrypted."""
    encrypted: dict[str, set[bool]] = {}
    for line in server.said().splitlines():
        if match := _AUTHORIZED.search(line):
            encrypted.setdefault(match[1], set()).add(match[2] is not None)
    return encrypted


@pytest.mark.spark
@pytest.mark.slow
def test_driver_and_executors_stage_and_release_over_tls(
    encrypting: PostgreSQL, authority: Authority, tmp_path: Path
) -> None:
    job = PostgresJob(world_of(encrypting, authority.keys.certificate, 1), tmp_path)
    for number in range(3):
        job.put(number)
    job.write(create=True)
    with job.start() as run:
        assert run.wait(300) == ExitCode.FINISHED, run.tail()
    assert job.ids() == list(range(30))
    assert connections(encrypting) == {"ckpt": {True}, "ckpt stage": {True}}
    assert job.files_with_password() == []


def test_the_server_sees_an_encrypted_release(encrypting: PostgreSQL, authority: Authority) -> None:
    world = world_of(encrypting, authority.keys.certificate, 2)
    world.run(
        f"""CREATE FUNCTION "{world.schema}".is_encrypted() RETURNS boolean LANGUAGE sql VOLATILE
        RETURN (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid())"""
    )
    world.table(f'id int NOT NULL, city text, over_tls boolean DEFAULT "{world.schema}".is_encrypted()')
    sink = world.new()
    sink.release([staged(sink, 1)], 1)
    assert world.rows() == [(*row, True) for row in rows_of(1)]


def test_a_server_certificate_of_another_authority_is_refused(
    encrypting: PostgreSQL, authority: Authority, tmp_path: Path
) -> None:
    world = world_of(encrypting, Authority(tmp_path, "another").keys.certificate, 3)
    with pytest.raises(
        SinkUnavailableError,
        match=r"sink 'lake' of job 'orders' could not .* certificate verify failed",
    ):
        world.new()


@pytest.mark.slow
def test_a_certificate_of_another_host_is_refused(authority: Authority, tmp_path: Path) -> None:
    if initdb() is None:
        pytest.skip(NOT_INSTALLED)
    with PostgreSQL(tls=authority.signed("elsewhere", "DNS:elsewhere.example")) as server:
        world = world_of(server, authority.keys.certificate, 4)
        with pytest.raises(SinkUnavailableError, match=r"certificate for .*elsewhere.* does not match host name"):
            world.new()


def test_a_server_without_tls_is_refused(server: PostgreSQL, authority: Authority) -> None:
    world = world_of(server, authority.keys.certificate, 5)
    with pytest.raises(SinkUnavailableError, match="server does not support SSL"):
        world.new()


def test_a_missing_certificate_file_is_refused(encrypting: PostgreSQL, tmp_path: Path) -> None:
    world = world_of(encrypting, tmp_path / "gone.pem", 6)
    with pytest.raises(SinkUnavailableError, match=r"root certificate file .*gone\.pem.* does not exist"):
        world.new()
