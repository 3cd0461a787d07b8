"""Polling intervals and timeouts of a deployment, and the values that are refused."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.remote.timing import BEAT, LOST_AFTER, SILENCE, Timing


def test_missing_options_keep_the_defaults_of_the_root() -> None:
    assert Timing.of("/local/folder").with_overrides({}) == Timing(0.1, LOST_AFTER, SILENCE)
    timing = Timing.of("s3://bucket").with_overrides({"poll": None, "lost_after": "1m", "silence": 20})
    assert timing == Timing(1.0, 60.0, 20.0)


@pytest.mark.parametrize("name", ["lost_after", "silence"])
def test_a_timeout_below_two_heartbeats_is_refused(name: str) -> None:
    least = 2 * (BEAT + 1.0)
    assert getattr(Timing(1.0).with_overrides({name: least}), name) == least
    with pytest.raises(InvalidInputError, match=rf"--{name} of 5\.9 s.*Give 6 s or more"):
        Timing(1.0).with_overrides({name: 5.9}, lambda option: f"--{option}")


@pytest.mark.parametrize("poll", [0, 61, "2m"])
def test_an_invalid_poll_interval_is_refused(poll: int | str) -> None:
    with pytest.raises(InvalidInputError, match="poll of"):
        Timing(1.0).with_overrides({"poll": poll})
