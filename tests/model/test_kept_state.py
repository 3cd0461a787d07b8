"""State that a query keeps, and changes after which Spark would mistake it for other state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_ckpt.model.kept_state import KeptState, confused_states

COUNTS = KeptState("Aggregate", ("day", "tag"), (("a", "b"),), ("count(1)", "sum(n)"))
JOIN = KeptState("Join", ("id = id", "k = k"), (("a",), ("b",)))
OF_A, OF_B = (KeptState("Deduplicate", ("id",), ((uid,),)) for uid in "ab")

OF_BOTH, WITH_ALL = (
    KeptState("Deduplicate", ("id",), (("a", "b"),)),
    KeptState("Join", ("id = id",), (("a",), ("a", "b"))),
)


@pytest.mark.parametrize(
    ("had", "has"),
    [
        pytest.param([COUNTS], [replace(COUNTS, by=("tag", "day"))], id="order of keys"),
        pytest.param([COUNTS], [replace(COUNTS, by=("tag", "hour"))], id="a key at another place"),
        pytest.param([COUNTS], [replace(COUNTS, calls=("sum(n)", "count(1)"))], id="order of calls"),
        pytest.param([JOIN], [KeptState("Join", ("id = id", "k = k"), (("b",), ("a",)))], id="sides"),
        pytest.param([JOIN], [KeptState("Join", ("k = k", "id = id"), (("a",), ("b",)))], id="order of equalities"),
        pytest.param([OF_A, OF_B], [OF_B, OF_A], id="branches"),
        pytest.param([OF_A, OF_BOTH], [OF_BOTH, OF_A], id="branches, one of which includes the other"),
        pytest.param(
            [WITH_ALL], [KeptState("Join", ("id = id",), (("a", "b"), ("a",)))], id="sides of the same stream"
        ),
        pytest.param([OF_A], [OF_B], id="of another stream"),
    ],
)
def test_confused_states_are_returned(had: list[KeptState], has: list[KeptState]) -> None:
    assert confused_states(had, has) == (had[0], has[0])
    assert confused_states([COUNTS, *had], [COUNTS, *has]) == (had[0], has[0])


@pytest.mark.parametrize(
    ("had", "has"),
    [
        pytest.param([COUNTS, JOIN], [COUNTS, JOIN], id="the same"),
        pytest.param([COUNTS], [replace(COUNTS, by=("date", "tag"), calls=("count(1)", "sum(m)"))], id="other names"),
        pytest.param([COUNTS], [replace(COUNTS, sides=(("b",),))], id="a stream is left out"),
        pytest.param([OF_A], [KeptState("Deduplicate", ("id",), (("a", "c"),))], id="a stream is added"),
        pytest.param([COUNTS], [OF_A], id="another kind, which Spark refuses"),
        pytest.param([OF_A, OF_B], [OF_B], id="fewer, which Spark refuses"),
        pytest.param([], [OF_B], id="none"),
    ],
)
def test_possible_corrections_are_no_confusion(had: list[KeptState], has: list[KeptState]) -> None:
    assert confused_states(had, has) is None
    assert confused_states(has, had) is None


def test_removed_and_new_streams_are_not_compared() -> None:
    """A new source replaces a source that has ended."""
    had, has = (KeptState("Deduplicate", ("id",), ((uid, "live"),)) for uid in ("history", "history2"))
    assert confused_states([had], [has], {"live", "elsewhere"}) is None
    assert confused_states([had], [has], {"history", "history2"}) is not None


def test_a_running_query_may_change_only_the_argument_of_a_sum() -> None:
    assert COUNTS.fits(replace(COUNTS, calls=("count(1)", "sum(m)")))
    for other in (replace(COUNTS, by=("date", "tag")), replace(COUNTS, calls=("sum(n)", "count(1)")), OF_A):
        assert not COUNTS.fits(other)


def test_kept_state_is_described_in_words() -> None:
    assert str(COUNTS) == "Aggregate by day, tag (count(1), sum(n)) of a and b"
    assert str(JOIN) == "Join by id = id, k = k of a with b"
    assert str(KeptState("GlobalLimit", (), (("a", "b"),))) == "GlobalLimit of a and b"


def test_another_bound_is_a_confusion() -> None:
    hour, day = (replace(COUNTS, bounds=(f"window of 1 {unit}",)) for unit in ("hour", "day"))
    assert confused_states([hour], [day]) == (hour, day)
    assert not hour.fits(day)
    assert confused_states([hour], [hour]) is None
    assert "window of 1 hour" in str(hour)
