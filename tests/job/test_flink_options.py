"""Options under Flink's keys, with values in Flink's syntax (FLIP-383)."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job import errors
from airflow_provider_ckpt.job.options.flink_options import KEYS, flink_values
from airflow_provider_ckpt.job.options.run_options import BY_NAME

ENABLED = "execution.batch.job-recovery.enabled"
TIMEOUT = "execution.batch.job-recovery.previous-worker.recovery.timeout"
PAUSE = "execution.batch.job-recovery.snapshot.min-pause"
OLDER = "execution.batch.job-recovery.operator-coordinator-snapshot.min-pause"
BUFFER = "job-event.store.write-buffer.size"
FLUSH = "job-event.store.write-buffer.flush-interval"


def test_keys_and_defaults_follow_the_flip_except_for_recovery() -> None:
    defaults = {key: BY_NAME[option.name].default for key, option in KEYS.items()}
    assert defaults == {ENABLED: True, TIMEOUT: 30.0, PAUSE: 180.0, OLDER: 180.0, BUFFER: 1 << 20, FLUSH: 1.0}


def test_each_key_sets_a_field_of_the_run_options() -> None:
    given = {ENABLED: "FALSE", TIMEOUT: "45 s", OLDER: "1min", BUFFER: "2 MB", FLUSH: "500"}
    assert flink_values(given, {}) == {
        "batch_recovery": False,
        "previous_worker_timeout": 45.0,
        "snapshot_min_pause": 60.0,
        "journal_buffer_bytes": 2 << 20,
        "journal_flush_interval": 0.5,
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 0.03),
        (30, 0.03),
        (" 30s ", 30.0),
        ("30 Seconds", 30.0),
        ("3 m", 180.0),
        ("3 min", 180.0),
        ("2h", 7200.0),
        ("1 day", 86400.0),
        ("5 millis", 0.005),
        ("5 µs", 5e-6),
        ("7nanos", 7e-9),
        ("0", 0.0),
    ],
)
def test_a_duration_is_read_as_flink_reads_it(text: Any, seconds: float) -> None:
    assert flink_values({TIMEOUT: text}, {}) == {"previous_worker_timeout": pytest.approx(seconds)}


@pytest.mark.parametrize(
    ("text", "size"),
    [("512", 512), (64, 64), ("1 b", 1), ("1kb", 1 << 10), ("1 kibibytes", 1 << 10), ("3 G", 3 << 30), ("1T", 1 << 40)],
)
def test_a_size_is_read_as_flink_reads_it(text: Any, size: int) -> None:
    assert flink_values({BUFFER: text}, {}) == {"journal_buffer_bytes": size}


@pytest.mark.parametrize(
    "text", ["", "s", "1.5 s", "-1 s", "1m30s", "30 parsecs", "99999999999999999999", "1 s s", "٣ s"]
)
def test_an_invalid_duration_is_refused_with_its_key_and_the_form(text: str) -> None:
    with pytest.raises(errors.BadOptionError, match="a number alone is milliseconds") as caught:
        flink_values({TIMEOUT: text}, {})
    assert TIMEOUT in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "mb", "1.5 mb", "-1", "1 mib", "1 pb", "9223372036854775808", "8388608 tb", "9" * 5000]
)
def test_an_invalid_size_is_refused_with_its_key_and_the_form(text: str) -> None:
    with pytest.raises(errors.BadOptionError, match="a number alone is bytes") as caught:
        flink_values({BUFFER: text}, {})
    assert BUFFER in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({ENABLED: "yes"}, "true or false"),
        ({ENABLED: None}, "a text"),
        ({TIMEOUT: 1.5}, "a text"),
        ({"execution.batch.job-recovery.enable": "true"}, f"Did you mean {ENABLED!r}"),
        ({3: "x"}, "job-event.store"),
        ([ENABLED], "texts by Flink's keys"),
    ],
)
def test_an_invalid_flink_option_is_refused(given: Any, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        flink_values(given, {})


def test_two_names_of_one_option_may_not_have_different_values() -> None:
    assert flink_values({PAUSE: "1 min", OLDER: "60 s"}, {}) == {"snapshot_min_pause": 60.0}
    with pytest.raises(errors.BadOptionError, match=OLDER):
        flink_values({PAUSE: "1 min", OLDER: "2 min"}, {})
    with pytest.raises(errors.BadOptionError, match="snapshot_min_pause"):
        flink_values({PAUSE: "1 min"}, {"snapshot_min_pause": "2m"})
    assert flink_values({PAUSE: "1 min"}, {"snapshot_min_pause": 180.0}) == {"snapshot_min_pause": 60.0}
