"""Polling intervals and timeouts of a deployment, and the values that are refused."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.remote.timing import BEAT, LOST_AFTER, SILENCE, Timing


def test_what_is_not_said_stays_as_it_is_for_the_root() -> None:
    assert Timing.of("/local/folder").with_overrides({}) == Timing(0.1, LOST_AFTER, SILENCE)
    timing = Timing.of("s3://bucket").with_overrides({"poll": None, "lost_after": "1m", "silence": 20})
    assert timing == Timing(1.0, 60.0, 20.0)


@pytest.mark.parametrize("name", ["lost_after", "silence"])
def test_nobody_counts_as_lost_sooner_than_his_next_sign_of_life_is_seen(name: str) -> None:
    least = 2 * (BEAT + 1.0)
    assert getattr(Timing(1.0).with_overrides({name: least}), name) == least
    with pytest.raises(InvalidInputError, match=rf"--{name} of 5\.9 s.*Give 6 s or more"):
        Timing(1.0).with_overrides({name: 5.9}, lambda option: f"--{option}")


@pytest.mark.parametrize("poll", [0, 61, "2m"])
def test_looks_have_to_be_apart_and_not_too_far(poll: int | str) -> None:
    with pytest.raises(InvalidInputError, match="poll of"):
        Timing(1.0).with_overrides({"poll": poll})
