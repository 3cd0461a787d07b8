from __future__ import annotations

import json
import pickle
import traceback
from dataclasses import fields
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job import errors
from airflow_provider_ckpt.job.options.run_options import (
    STORAGE_OPTIONS_VARIABLE,
    RunOptions,
    read_storage_options,
    storage_options_environ,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "run-options-v1.json"
NEEDED: dict[str, Any] = {"job": "orders.py:job", "root": "/ckpt", "job_id": "orders"}


def options(**values: Any) -> RunOptions:
    return RunOptions.from_json({**NEEDED, **values})


def test_the_golden_options_are_read_and_written_again() -> None:
    golden = json.loads(GOLDEN.read_text())
    read = RunOptions.from_json(golden)
    assert read.to_json() == golden
    assert (read.batch_recovery, read.overview_interval) == (False, 2.0)
    assert read.params == {"day": "2026-01-01", "limit": "10"}


def test_the_json_of_options_includes_the_defaults() -> None:
    assert set(options().to_json()) == {f.name for f in fields(RunOptions)} | {"format", "version"}


def test_units_durations_and_plain_values_are_read() -> None:
    read = options(
        checkpoint_interval="1m30s",
        min_pause=timedelta(seconds=2),
        checkpoint_timeout=pendulum.duration(minutes=5),
        journal_buffer_bytes="64k",
        max_bytes_per_trigger="1g",
        stop_after="2h",
        conf={"spark.ui.enabled": False, "spark.sql.shuffle.partitions": 8},
    )
    assert (read.checkpoint_interval, read.min_pause, read.checkpoint_timeout) == (90.0, 2.0, 300.0)
    assert (read.journal_buffer_bytes, read.max_bytes_per_trigger, read.stop_after) == (
        65536,
        1 << 30,
        7200.0,
    )
    assert read.conf == {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "8"}


@pytest.mark.parametrize(
    "value",
    [
        "2025-01-31T18:00:00Z",
        "2025-01-31T19:00:00+01:00",
        pendulum.datetime(2025, 1, 31, 19, tz="Europe/Berlin"),
        datetime(2025, 1, 31, 18, tzinfo=timezone.utc),
    ],
)
def test_a_time_is_kept_in_utc(value: Any) -> None:
    stop_at = options(stop_at=value).stop_at
    assert type(stop_at) is datetime
    assert stop_at.isoformat() == "2025-01-31T18:00:00+00:00"


@pytest.mark.slow
@given(
    st.datetimes(timezones=st.timezones()),
    st.floats(0.001, 1e9),
    st.dictionaries(st.text(min_size=1), st.text()),
)
def test_options_survive_json(time: datetime, seconds: float, conf: dict[str, str]) -> None:
    written = options(drain_at=time, checkpoint_interval=seconds, conf=conf, attempt="try 2")
    assert RunOptions.from_json(json.loads(json.dumps(written.to_json()))) == written


def test_an_unknown_option_is_refused_with_the_closest_one() -> None:
    with pytest.raises(errors.BadOptionError, match="Did you mean 'checkpoint_interval'") as caught:
        options(checkpoint_intervall=3)
    assert "trigger_interval" in str(caught.value)


@pytest.mark.parametrize("name", NEEDED)
def test_an_option_without_a_default_must_be_given(name: str) -> None:
    given_options = {key: value for key, value in NEEDED.items() if key != name}
    with pytest.raises(errors.BadOptionError, match=f"option {name}=None"):
        RunOptions.from_json(given_options)


BAD: dict[str, list[Any]] = {
    "job": ["", " ", 3],
    "root": ["", None],
    "job_id": ["", None],
    "mode": ["stream", None, ["auto"]],
    "checkpoint_interval": [0, -1, "soon", None],
    "min_pause": [-1, "x"],
    "checkpoint_timeout": [0],
    "tolerable_failed_checkpoints": [-1, 1.5, "1", True],
    "trigger_interval": ["-5s"],
    "stop_after": ["", -1],
    "stop_at": ["2025-01-31T18:00:00", "tomorrow", "", datetime(2025, 1, 31), 17],  # noqa: DTZ001
    "drain_at": ["None"],
    "restore": ["", None],
    "conf": [None, [], {"a": None}, {3: "x"}],
    "journal_buffer_bytes": ["lots", -1],
    "journal_flush_interval": [-1],
    "batch_recovery": ["true", 1, None],
    "previous_worker_timeout": [-1, "soon"],
    "snapshot_min_pause": [-1, "soon"],
    "retained_checkpoints": [0, True, 101],
    "allow_non_restored_state": ["yes", 1],
    "attempt": ["", 3],
    "max_bytes_per_trigger": [0, "x"],
    "params": [None, "day=1", {"day": None}, {"day": ["1"]}, {"": "1"}, {"a day": "1"}, {"a=b": "1"}, {3: "x"}],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in BAD for value in BAD[name]])
def test_an_impossible_value_is_refused_by_the_name_of_its_option(name: str, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=name) as caught:
        options(**{name: value})
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    "ends",
    [
        {"stop_after": 1, "drain_after": 1},
        {"stop_at": "2025-01-31T18:00:00Z", "drain_at": "2025-01-31T18:00:00Z"},
        {"stop_after": 1, "drain_at": "2025-01-31T18:00:00Z"},
        {"stop_after": 1, "stop_at": "2025-01-31T18:00:00Z"},
    ],
)
def test_two_ways_to_end_a_run_are_refused(ends: dict[str, Any]) -> None:
    with pytest.raises(errors.BadOptionError, match=" and ".join(ends)):
        options(**ends)


@pytest.mark.parametrize("label", [("airflow-provider-ckpt/root", 1), ("airflow-provider-ckpt/run-options", 2)])
def test_options_of_another_format_or_a_newer_version_are_refused(label: tuple[str, int]) -> None:
    with pytest.raises(errors.BadOptionError, match=f"version {label[1]}"):
        options(format=label[0], version=label[1])


@pytest.mark.parametrize("version", ["1", None, 0, True, 1.0])
def test_an_invalid_version_of_options_is_refused(version: Any) -> None:
    with pytest.raises(errors.BadOptionError, match="run options of format"):
        options(format="airflow-provider-ckpt/run-options", version=version)


def test_secrets_of_options_reach_neither_repr_nor_journal() -> None:
    secret = options(
        root="s3://key:SECRET@bucket/ckpt",
        conf={
            "spark.hadoop.fs.s3a.secret.key": "SECRET",
            "spark.shop.DB_PASS": "SECRET",
            "spark.shop.pwd": "SECRET",
            "spark.shop.header.auth": "SECRET",
            "spark.shop.header": "Basic SECRET",
            "spark.hadoop.fs.s3a.access.key": "SECRET",
            "spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net": "SECRET",
            "spark.driver.extraJavaOptions": "-Djavax.net.ssl.keyStorePassword=SECRET",
            "spark.jdbc.url": "jdbc:postgresql://db/x?user=u&password=SECRET",
            "spark.proxy": "http://me:SECRET@proxy:3128",
            "spark.sql.shuffle.partitions": "4",
        },
    )
    assert "SECRET" not in repr(secret) + json.dumps(secret.public_json())
    assert secret.public_json()["conf"]["spark.sql.shuffle.partitions"] == "4"
    assert secret.public_json()["root"] == "s3://***@bucket/ckpt"
    assert secret.to_json()["conf"]["spark.hadoop.fs.s3a.secret.key"] == "SECRET"


def test_the_container_of_an_abfs_root_is_no_secret() -> None:
    root = "abfss://lake@account.dfs.core.windows.net/ckpt"
    assert options(root=root).public_json()["root"] == root


def test_numbers_and_booleans_become_text_parameters() -> None:
    assert options(params={"limit": 3, "full": True}).params == {"limit": "3", "full": "true"}


def test_parameters_are_public() -> None:
    given_options = options(params={"day": "2026-01-01"})
    assert given_options.public_json()["params"] == {"day": "2026-01-01"}
    assert "2026-01-01" in repr(given_options)


def test_storage_options_are_passed_in_the_environment() -> None:
    given_options = {"key": "k", "secret": "s", "client_kwargs": {"endpoint_url": "http://127.0.0.1:9000"}}
    assert read_storage_options(storage_options_environ(given_options)) == given_options
    assert storage_options_environ({}) == {}
    assert read_storage_options({}) == read_storage_options({STORAGE_OPTIONS_VARIABLE: "  "}) == {}


HOSTILE = [
    '{"secret": "SECRET\\ud800"}',
    '{"secret": "SECRET", "n": ' + "9" * 5_000 + "}",
    '{"secret": "SECRET\udcff"}',
    "[" * 100_000,
]


@pytest.mark.parametrize("text", ['{"secret": "SECRET"', '["SECRET"]', '"SECRET"', "SECRET", "null", *HOSTILE])
def test_invalid_storage_options_are_refused_and_not_shown(text: str) -> None:
    with pytest.raises(errors.BadOptionError, match=STORAGE_OPTIONS_VARIABLE) as caught:
        read_storage_options({STORAGE_OPTIONS_VARIABLE: text})
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert "SECRET" not in "".join(traceback.format_exception(error)) + str(error.data)


def test_a_storage_option_that_is_no_json_is_refused_and_not_shown() -> None:
    with pytest.raises(errors.BadOptionError, match="is no JSON value") as caught:
        storage_options_environ({"secret": {"SECRET"}})
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None
