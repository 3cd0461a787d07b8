from __future__ import annotations

from base64 import b64encode
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.hooks.connection_settings import location_of
from airflow_provider_ckpt.hooks.errors import InvalidCkptConnectionError, NoCheckpointRootError


def connection(**fields: str) -> Any:
    return SimpleNamespace(**{"host": None, "schema": None, "login": None, "password": None, **fields})


@pytest.mark.parametrize(
    ("fields", "extra", "expected"),
    [
        ({"host": "s3://bucket/prefix"}, {}, "s3://bucket/prefix"),
        ({"host": "s3://bucket", "schema": "prefix/deep"}, {}, "s3://bucket/prefix/deep"),
        ({"host": "", "schema": "data/ckpt"}, {}, "/data/ckpt"),
        ({"host": None}, {"root": "/data"}, "/data"),
    ],
)
def test_the_root_is_read_from_every_form_of_a_connection(
    fields: dict[str, str], extra: dict[str, str], expected: str
) -> None:
    assert location_of("c", connection(**fields), extra).uri == expected


def test_a_given_root_replaces_the_connections_root_but_not_its_options() -> None:
    location = location_of("c", connection(host="s3://a"), {"storage_options": {"anon": True}}, "s3://b")
    assert (location.uri, dict(location.options)) == ("s3://b", {"anon": True})


def test_login_and_password_become_key_and_secret_on_s3() -> None:
    location = location_of("c", connection(host="s3://a", login="user", password="p4ss"), {"endpoint_url": "http://m"})
    assert dict(location.options) == {"key": "user", "secret": "p4ss", "endpoint_url": "http://m"}


@pytest.mark.parametrize("extra", [{"storage_options": None, "endpoint_url": None}, {}])
def test_empty_fields_of_the_connection_form_are_ignored(extra: dict[str, Any]) -> None:
    assert location_of("c", connection(host="/data"), extra).options == {}


def test_storage_options_may_be_json_text() -> None:
    location = location_of("c", connection(host="gs://b"), {"storage_options": '{"token": "anon"}'})
    assert location.options == {"token": "anon"}


@pytest.mark.parametrize(
    ("fields", "extra", "problem"),
    [
        ({"host": "s3://key:t0psecret@bucket"}, {}, "root URI holds a user or a password"),
        ({"host": "relative/folder"}, {}, "relative path"),
        ({"host": "file:folder"}, {}, "relative path"),
        ({"host": "data:folder"}, {}, "relative path"),
        ({"host": "s3:/bucket/folder"}, {}, "relative path"),
        ({}, {"root": 5}, "its root is no text, but of type int"),
        ({"host": "/data"}, ["t0psecret"], "its extra is not a JSON object"),
        ({"host": "/data"}, "t0psecret", "its extra is not a JSON object"),
        ({"host": "gs://b", "login": "me"}, {}, "s3:// only"),
        ({"host": "/data"}, {"storage_options": "{t0psecret"}, "not a JSON object"),
        ({"host": "/data"}, {"storage_options": ["t0psecret"]}, "not a JSON object"),
    ],
)
def test_an_invalid_connection_is_refused_without_showing_a_secret(
    fields: dict[str, str], extra: Any, problem: str
) -> None:
    with pytest.raises(InvalidCkptConnectionError, match=problem) as caught:
        location_of("c", connection(**fields), extra)
    assert "t0psecret" not in str(caught.value)


@pytest.mark.parametrize("root", ["ckpt", "file:folder", " /data", "s3://key:t0psecret@bucket"])
def test_the_error_for_a_tasks_root_does_not_name_the_connection(root: str) -> None:
    with pytest.raises(InvalidCkptConnectionError, match=r"^root= cannot be used: the root") as caught:
        location_of("ckpt_default", connection(host="/data"), {}, root)
    assert "ckpt_default" not in str(caught.value)
    assert "t0psecret" not in str(caught.value)


def test_a_scheme_in_capitals_is_recognized() -> None:
    location = location_of("c", connection(host="S3://bucket/x", login="me", password="t0psecret"), {})
    assert location.options == {"key": "me", "secret": "t0psecret"}


def test_settings_without_connection_and_root_raise_an_error() -> None:
    with pytest.raises(NoCheckpointRootError, match="ckpt_default"):
        location_of("ckpt_default", None, {})


def test_every_option_text_except_the_harmless_ones_is_a_secret() -> None:
    options = {
        "key": 'qu"ote',
        "endpoint_url": "http://minio",
        "client_kwargs": {"region_name": "eu-west-1", "aws_session_token": "t0ken"},
        "anon": False,
    }
    location = location_of("c", connection(host="s3://b"), {"storage_options": options})
    assert {'qu"ote', 'qu\\"ote', "qu%22ote", "t0ken", b64encode(b'qu"ote:t0ken').decode().rstrip("=")} <= {
        *location.secrets()
    }
    assert not {"http://minio", "eu-west-1"} & {*location.secrets()}
    assert "t0ken" not in repr(location)


def test_a_numeric_password_and_a_user_in_an_endpoint_are_secrets() -> None:
    options = {
        "password": 12345678,
        "timeout": 30,
        "use_ssl": True,
        "client_kwargs": {"endpoint_url": "http://minio-user:minio-pw@minio:9000"},
    }
    location = location_of("c", connection(host="s3://b"), {"storage_options": options})
    assert sorted(location.secrets()) == sorted(["12345678", "minio-user", "minio-pw"])


def test_a_key_in_the_root_uri_is_refused() -> None:
    with pytest.raises(InvalidCkptConnectionError, match="login and password"):
        location_of("c", connection(host="s3://AKIA@bucket/x"), {})
    assert location_of("c", connection(host="abfss://container@account/x"), {}).uri == "abfss://container@account/x"


@pytest.mark.parametrize(
    ("own", "root"),
    [
        ("s3://lake/ckpt", "http://attacker/"),
        ("s3://lake/ckpt", "HTTPS://attacker/x"),
        ("s3://lake/ckpt", "ftp://attacker/x"),
        ("s3://lake/ckpt", "gs://lake/ckpt"),
        ("webhdfs://one/ckpt", "webhdfs://two/ckpt"),
        ("abfss://c@account.dfs.core.windows.net/x", "abfss://c@other.dfs.core.windows.net/x"),
        ("", "http://attacker/"),
        ("", "abfss://c@account.dfs.core.windows.net/x"),
    ],
)
def test_a_root_on_another_host_does_not_get_the_options(own: str, root: str) -> None:
    """The root of a task is a template. Every user who may trigger the Dag may choose it."""
    with pytest.raises(
        InvalidCkptConnectionError, match="would be sent the storage options of the connection 'c'"
    ) as caught:
        location_of("c", connection(host=own), {"storage_options": {"headers": {"Authorization": "t0psecret"}}}, root)
    assert "t0psecret" not in str(caught.value)


@pytest.mark.parametrize(
    ("own", "root"),
    [
        ("s3://lake/ckpt", "s3a://other/ckpt"),
        ("", "s3://other/ckpt"),
        ("s3://lake/ckpt", "/shared/ckpt"),
        ("s3://lake/ckpt", "file:///shared/ckpt"),
        ("webhdfs://one/ckpt", "webhdfs://ONE:9870/other"),
    ],
)
def test_a_root_on_the_same_host_gets_the_options(own: str, root: str) -> None:
    location = location_of("c", connection(host=own), {"storage_options": {"token": "anon"}}, root)
    assert (location.uri, dict(location.options)) == (root, {"token": "anon"})


def test_a_root_on_another_host_is_accepted_without_options() -> None:
    assert location_of("c", connection(host="s3://lake/ckpt"), {}, "gs://other/ckpt").uri == "gs://other/ckpt"
