"""Secrets of a location, which no text made from the location shows."""

from __future__ import annotations

import json
import pickle
import traceback
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.storage.errors import InvalidStorageUriError
from airflow_provider_ckpt.storage.faults import translated
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.redaction import credentials_in, redact_uri
from tests.support.secret_uris import MARK, SECRETS, uris_with


def options_with(secret: str) -> list[dict[str, Any]]:
    return [
        {"key": secret},
        {"anon": False, "secret": f"Bearer {secret}", "token": secret.encode()},
        {"client_kwargs": {"region_name": "eu-1", "aws_session_token": secret}},
        {"config_kwargs": {"proxies": [{"http": secret}, (secret, 1)]}, "x": {secret}},
        {"endpoint_url": f"http://me:{quote(secret, safe='')}@minio:9000"},
        {"client_kwargs": {"endpoint_url": f"https://host/?sv=1&sig={quote(secret, safe='')}"}},
    ]


def locations_with(secret: str) -> list[Location]:
    options = options_with(secret)
    plain = [Location(uri, chosen) for uri in ("s3://bucket/x", "/lake") for chosen in options]
    return plain + [Location(uri, chosen) for uri in uris_with(secret) for chosen in ({}, options[0])]


SECRETS_IN = st.tuples(SECRETS, st.integers(0, len(locations_with(MARK)) - 1)).map(
    lambda drawn: (drawn[0], locations_with(drawn[0])[drawn[1]])
)


def text_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(getattr(error, "data", ""))


@given(SECRETS_IN)
def test_a_location_shows_no_secret(given_: tuple[str, Location]) -> None:
    _, location = given_
    shown = (repr(location), str(location), f"{[location]} {location!r:>9}", location.for_display())
    assert MARK not in "".join(shown) + repr(location.shown_options())


@given(SECRETS_IN)
def test_a_redacted_message_of_another_program_shows_no_secret(given_: tuple[str, Location]) -> None:
    """Other programs show the secret as it is, in JSON, in a repr or in a URI."""
    secret, location = given_
    messages = [secret, json.dumps({"a": secret}), repr([secret]), quote(secret), quote(secret, safe="")]
    if secret in "".join(location.secrets()):  # skip secrets whose "?" became another character in the URI
        assert MARK not in location.redact(" | ".join([*messages, location.uri]))


@given(SECRETS_IN)
def test_the_refusal_of_a_location_shows_no_secret(given_: tuple[str, Location]) -> None:
    _, location = given_
    if not any(credentials_in(location.uri)):
        return
    with pytest.raises(InvalidStorageUriError) as raised:
        open_storage(location)
    assert MARK not in text_of(raised.value)


@given(SECRETS_IN, st.sampled_from([OSError, PermissionError, FileNotFoundError, ConnectionError]))
def test_the_error_of_a_leaking_backend_shows_no_secret(given_: tuple[str, Location], kind: type[OSError]) -> None:
    secret, location = given_
    if secret not in "".join(location.secrets()):
        return
    leaking = kind(f"refused: {json.dumps(secret)} {quote(secret)} {secret!r}")
    with pytest.raises(CkptError) as raised, translated("read", location.for_display(), secrets=location.secrets()):
        raise leaking
    assert MARK not in text_of(raised.value) + str(pickle.loads(pickle.dumps(raised.value)))


@given(SECRETS_IN)
def test_the_journaled_options_of_a_run_show_no_secret(given_: tuple[str, Location]) -> None:
    secret, location = given_
    conf = {"spark.hadoop.fs.s3a.secret.key": secret, "spark.x": f"http://me:{quote(secret, safe='')}@proxy:1"}
    options = RunOptions(job="a.py:job", root=location.uri, job_id="a", conf=conf)
    assert MARK not in json.dumps(options.public_json()) + repr(options)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://bucket/a@b/c", "s3://bucket/a@b/c"),
        ("http://host:9000/a@b", "http://host:9000/a@b"),
        ("abfss://lake@account.dfs.core.windows.net/x", "abfss://lake@account.dfs.core.windows.net/x"),
        ("/lake/day=1/part-?.json", "/lake/day=1/part-?.json"),
        ("s3://bucket/x?versionId=7&sort=key", "s3://bucket/x?versionId=7&sort=key"),
        ("s3://key:se/cret@bucket/x", "s3://***@bucket/x"),
        ("http://a:b@one,http://c:d@two", "http://***@one,http://***@two"),
        ("see s3://k:s@one and s3://k:s@two", "see s3://***@one and s3://***@two"),
        ("https://h/x?sig=ab%2Fc&sv=1", "https://h/x?sig=***&sv=1"),
    ],
)
def test_only_the_credentials_of_a_uri_are_hidden(uri: str, shown: str) -> None:
    assert redact_uri(uri) == shown


def test_public_options_stay_readable() -> None:
    options = {"key": "k", "anon": False, "timeout": 30, "client_kwargs": {"region_name": "eu-1", "pw": 12345678}}
    location = Location("s3://bucket/x", {**options, "endpoint_url": "http://me:pw@minio:9000"})
    assert repr(location) == (
        "Location('s3://bucket/x', {'key': '***', 'anon': False, 'timeout': 30, 'client_kwargs': "
        "{'region_name': 'eu-1', 'pw': '***'}, 'endpoint_url': 'http://***@minio:9000'})"
    )


def test_locations_are_equal_by_value_and_hashable() -> None:
    first, same = Location("s3://a", {"key": "k"}), Location("s3://a", {"key": "k"})
    assert first == same
    assert first != Location("s3://a", {"key": "l"})
    assert len({first, same, Location("s3://b")}) == 2
    assert pickle.loads(pickle.dumps(first)) == first
    assert Location.of("s3://b") == Location("s3://b")
    assert Location.of(first) is first
