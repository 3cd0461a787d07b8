"""Time limits and tries of the clients that fsspec uses."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ckpt.storage.client_limits import with_limits
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.support.silent_server import silent_server

KEYS = {"key": "a-key", "secret": "a-secret-nobody-may-see", "client_kwargs": {"region_name": "us-east-1"}}


def config_of(storage: Storage) -> Any:
    """Return the settings that botocore has in the end."""
    fs = storage._fs  # type: ignore[attr-defined]
    fs.connect()
    return fs.s3.meta.config


def test_d19_s3_has_default_limits() -> None:
    pytest.importorskip("s3fs")
    config = config_of(open_storage(Location("s3://lake/ckpt", KEYS)))
    assert (config.connect_timeout, config.read_timeout) == (10, 30)
    assert config.retries["total_max_attempts"] == 3


def test_d19_limits_of_the_user_are_kept() -> None:
    pytest.importorskip("s3fs")
    given = {"read_timeout": 5, "retries": {"max_attempts": 0}}
    config = config_of(open_storage(Location("s3://lake/ckpt", {**KEYS, "config_kwargs": given})))
    assert (config.connect_timeout, config.read_timeout) == (10, 5)
    assert config.retries["total_max_attempts"] == 1


VERBS: dict[str, Callable[[Storage], object]] = {
    "read": lambda storage: storage.read("x"),
    "exists": lambda storage: storage.exists("x"),
    "list": lambda storage: storage.list("x"),
    "files": lambda storage: storage.files("x"),
    "create": lambda storage: storage.create("x", b""),
    "replace": lambda storage: storage.replace("x", b""),
    "delete": lambda storage: storage.delete("x"),
}


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_d19_a_silent_endpoint_is_tried_three_times(verb: str) -> None:
    """It took 25 connections and 419 s with the clients' own settings."""
    pytest.importorskip("s3fs")
    with silent_server() as server:
        options = {**KEYS, "endpoint_url": server.uri, "config_kwargs": {"read_timeout": 0.5}}
        begun = time.monotonic()
        with pytest.raises(StorageTransientError):
            VERBS[verb](open_storage(Location("s3://lake/ckpt", options)))
        assert server.connections == 3
        assert time.monotonic() - begun < 20


@pytest.mark.parametrize("protocol", ["gs", "abfs", "http"])
def test_d19_other_stores_have_default_limits(protocol: str) -> None:
    pytest.importorskip("aiohttp")
    limits = with_limits(protocol, {})
    if protocol == "abfs":
        assert limits == {"connection_timeout": 10, "read_timeout": 30}
        assert with_limits(protocol, {"read_timeout": 3})["read_timeout"] == 3
        return
    limit = limits["requests_timeout"] if protocol == "gs" else limits["client_kwargs"]["timeout"]
    assert (limit.total, limit.sock_connect, limit.sock_read) == (None, 10, 30)
    own: dict[str, Any] = {"requests_timeout": 5} if protocol == "gs" else {"client_kwargs": {"timeout": 5}}
    assert with_limits(protocol, own) == own


def test_d19_a_store_without_such_options_gets_no_limits() -> None:
    assert with_limits("memory", {"a": 1}) == {"a": 1}
