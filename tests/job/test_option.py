"""Declarations of options, and everything that is derived from a declaration or repeats it."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ckpt.coordinator.protocol.checkpoint_options import CheckpointOptions
from airflow_provider_ckpt.job.changes import RULES
from airflow_provider_ckpt.job.options.option import Option
from airflow_provider_ckpt.job.options.run_options import BY_NAME, OPTIONS, RunOptions
from airflow_provider_ckpt.job.options.units import format_bytes, format_duration, parse_bytes, parse_duration
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.definition import JobDefinition

ids = lambda option: option.name  # noqa: E731


def test_every_field_of_the_options_is_declared() -> None:
    assert [option.name for option in OPTIONS] == [field.name for field in fields(RunOptions)]


@pytest.mark.parametrize("option", OPTIONS, ids=ids)
def test_each_option_has_one_line_of_help_and_a_valid_default(option: Option) -> None:
    assert option.help
    assert "\n" not in option.help
    assert option.kind.allowed
    if not option.required:
        assert option.read(option.default) == option.default


@pytest.mark.parametrize("option", [o for o in OPTIONS if o.shown_default and o.kind.is_text], ids=ids)
def test_a_shown_default_can_be_given(option: Option) -> None:
    assert option.read(option.shown_default) == option.default


def test_defaults_are_shown_in_short_units() -> None:
    shown = {name: BY_NAME[name].shown_default for name in ("checkpoint_interval", "checkpoint_timeout", "min_pause")}
    assert shown == {"checkpoint_interval": "30s", "checkpoint_timeout": "10m", "min_pause": "0"}
    assert BY_NAME["journal_buffer_bytes"].shown_default == "1m"
    assert BY_NAME["stop_after"].shown_default == BY_NAME["conf"].shown_default == ""


@given(st.floats(0, 3e9, allow_nan=False), st.integers(0, 10**17))
def test_a_formatted_value_is_read_back(seconds: float, size: int) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds)
    assert parse_bytes(format_bytes(size)) == size


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0"), (0.5, "0.5s"), (30, "30s"), (90, "90s"), (600, "10m"), (7200, "2h"), (86400, "1d")]
)
def test_a_duration_is_shown_in_the_largest_whole_unit(seconds: float, shown: str) -> None:
    assert format_duration(seconds) == shown


def test_fixed_options_are_compared_and_in_the_jobs_definition() -> None:
    fixed = [option.name for option in OPTIONS if option.fixed]
    assert fixed == ["mode"]
    assert fixed == [rule.field for rule in RULES if rule.kind == "job"]
    assert set(fixed) <= {field.name for field in fields(JobDefinition)}


def test_the_journal_has_the_declared_defaults() -> None:
    journal = inspect.signature(Journal).parameters
    assert journal["buffer_bytes"].default == BY_NAME["journal_buffer_bytes"].default
    assert journal["flush_interval"].default == BY_NAME["journal_flush_interval"].default


def test_the_coordinator_gets_the_options_of_the_run() -> None:
    """Each value differs from its default."""
    options = RunOptions(
        job="m:job",
        root="/r",
        job_id="orders",
        checkpoint_interval=2.0,
        min_pause=3.0,
        checkpoint_timeout=4.0,
        tolerable_failed_checkpoints=5,
        restart_attempts=6,
        restart_delay=7.0,
    )
    assert CheckpointOptions.of(options, "streaming") == CheckpointOptions(2.0, 3.0, 4.0, 5, 6, 7.0, mode="streaming")
    assert CheckpointOptions.of(options, "batch").is_batch
    defaults = RunOptions(job="m:job", root="/r", job_id="orders")
    assert CheckpointOptions.of(defaults, "streaming") == CheckpointOptions()


@pytest.mark.parametrize(
    "given_names", [[o.flag for o in OPTIONS], [o.argument for o in OPTIONS]], ids=["flag", "argument"]
)
def test_no_two_options_share_a_name(given_names: list[str | None]) -> None:
    named = [name for name in given_names if name]
    assert len(set(named)) == len(named) > 10
