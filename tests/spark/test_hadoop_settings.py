"""Translation of fsspec's S3 options to Hadoop settings."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.app.hadoop_settings import hadoop_settings, split_setting
from airflow_provider_ckpt.spark.app.storage_reachability import merged, spark_locations
from airflow_provider_ckpt.spark.errors import SparkStorageError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage

KEYS = {"key": "a-key", "secret": "a-secret-nobody-may-see"}


LIMITS = ("connection.establish.timeout", "connection.timeout", "attempts.maximum", "retry.limit", "retry.interval")


def all_settings(**options: Any) -> dict[str, str]:
    """Return the settings of the bucket "lake", with class names without their package."""
    named = {split_setting(key): value for key, value in hadoop_settings("s3://lake/ckpt", options).items()}
    assert {bucket for bucket, _ in named} <= {"lake"}
    return {name: value.removeprefix("org.apache.hadoop.fs.s3a.") for (_, name), value in named.items()}


def settings(**options: Any) -> dict[str, str]:
    """Return the settings without the time limits, which are always there."""
    return {name: value for name, value in all_settings(**options).items() if name not in LIMITS}


def test_absent_options_give_no_settings() -> None:
    assert settings() == {}
    assert settings(config_kwargs={"retries": {"max_attempts": 1}}) == {}


def test_d19_spark_has_the_time_limits_of_s3fs() -> None:
    assert all_settings() == {
        "connection.establish.timeout": "15000ms",  # S3A raises less to this, with a warning
        "connection.timeout": "30000ms",
        "attempts.maximum": "1",
        "retry.limit": "2",
        "retry.interval": "2s",
    }
    own = {"connect_timeout": 20, "read_timeout": 2.5, "retries": {"total_max_attempts": 1}}
    changed = all_settings(config_kwargs=own)
    assert [changed[name] for name in LIMITS] == ["20000ms", "2500ms", "1", "0", "2s"]
    assert all_settings(config_kwargs={"retries": {"max_attempts": 7}})["retry.limit"] == "7"
    both = {"max_attempts": 7, "total_max_attempts": 3}  # botocore ignores the first
    assert all_settings(config_kwargs={"retries": both})["retry.limit"] == "2"


@pytest.mark.parametrize("uri", ["file:///ckpt", "gs://lake/ckpt", "abfs://c@lake/ckpt"])
def test_only_s3_gets_settings(uri: str) -> None:
    assert hadoop_settings(uri, KEYS) == {}


def test_a_custom_endpoint_is_addressed_by_path_by_default() -> None:
    own = {"endpoint_url": "http://minio:9000"}
    assert settings(**own) == {"endpoint": "http://minio:9000", "path.style.access": "true"}
    assert settings(client_kwargs=own) == settings(**own)
    assert settings(**own, config_kwargs={"s3": {"addressing_style": "virtual"}})["path.style.access"] == "false"
    assert settings(config_kwargs={"s3": {"addressing_style": "path"}}) == {"path.style.access": "true"}


def test_region_tls_and_requester_pays_are_translated() -> None:
    assert settings(client_kwargs={"region_name": "eu-1"}, use_ssl=False, requester_pays=True) == {
        "endpoint.region": "eu-1",
        "connection.ssl.enabled": "false",
        "requester.pays.enabled": "true",
    }


@pytest.mark.parametrize(
    "options",
    [
        KEYS,
        {"username": KEYS["key"], "password": KEYS["secret"]},
        {"client_kwargs": {"aws_access_key_id": KEYS["key"], "aws_secret_access_key": KEYS["secret"]}},
    ],
    ids=["key", "username", "client_kwargs"],
)
def test_credentials_come_with_their_provider(options: dict[str, Any]) -> None:
    """Otherwise S3A would add a session token from the environment."""
    plain = {"access.key": "a-key", "secret.key": KEYS["secret"]}
    assert settings(**options) == {**plain, "aws.credentials.provider": "SimpleAWSCredentialsProvider"}
    assert settings(**options, token="t") == {
        **plain,
        "session.token": "t",
        "aws.credentials.provider": "TemporaryAWSCredentialsProvider",
    }


def test_anonymous_access_overrides_keys_as_in_s3fs() -> None:
    assert settings(anon=True, **KEYS) == {"aws.credentials.provider": "AnonymousAWSCredentialsProvider"}


def test_a_profile_is_passed_by_name() -> None:
    assert settings(profile="lake") == {
        "auth.profile.name": "lake",
        "aws.credentials.provider": "auth.ProfileAWSCredentialsProvider",
    }


def test_a_bucket_may_have_dots() -> None:
    named = hadoop_settings("s3://my.lake.endpoint", {"client_kwargs": {"region_name": "eu-1"}})
    assert {split_setting(key) for key in named} == {
        ("my.lake.endpoint", name) for name in ("endpoint.region", *LIMITS)
    }


def job(**sinks: FileSink) -> Job:
    made = Job("j")

    @made.source
    def live(read: Any) -> Any:
        raise AssertionError("not called")

    for uid, sink in sinks.items():
        made.sink(uid, live, sink)
    return made


def test_sinks_use_their_own_options_or_those_of_the_root() -> None:
    pytest.importorskip("s3fs")
    own = {"endpoint_url": "http://minio:9000"}
    both = job(a=FileSink("s3://one/x"), b=FileSink("s3a://two/x", storage_options=own), c=FileSink("/local/x"))
    locations = spark_locations(both, open_storage(Location("s3://lake/ckpt", KEYS)), Location("s3://lake/ckpt", KEYS))
    assert [(storage.uri, place.options) for storage, place in locations] == [
        ("s3://lake/ckpt", KEYS),
        ("s3://one/x", KEYS),
        ("s3://two/x", own),
    ]
    assert {split_setting(key)[0] for key in merged(locations)} == {"lake", "one", "two"}


def test_a_local_job_needs_no_storage_settings() -> None:
    assert spark_locations(job(a=FileSink("/local/x")), open_storage("/local/ckpt"), Location("/local/ckpt")) == []


def test_conflicting_options_for_one_bucket_are_refused_unshown() -> None:
    pytest.importorskip("s3fs")
    other = {**KEYS, "secret": "another-secret"}
    places = [Location("s3://lake/ckpt", KEYS), Location("s3://lake/out", other)]
    locations = [(open_storage(place), place) for place in places]
    with pytest.raises(SparkStorageError, match=r"s3://lake .*\(secret\.key\)") as raised:
        merged(locations)
    assert KEYS["secret"] not in str(raised.value)
    assert other["secret"] not in str(raised.value)
