"""Of the tests that take long CI runs a portion, another one for each commit."""

from __future__ import annotations

import pytest

from tests.support.slow import is_chosen

IDS = [f"tests/spark/test_a.py::test_{number}" for number in range(1000)]


def chosen(wanted: str, seed: str = "1", slow: bool = True) -> set[str]:
    return {one for one in IDS if is_chosen(slow, one, wanted, seed)}


def test_none_all_and_only() -> None:
    assert chosen("none") == set()
    assert chosen("none", slow=False) == set(IDS)
    assert chosen("all") == chosen("all", slow=False) == set(IDS)
    assert chosen("only") == set(IDS)
    assert chosen("only", slow=False) == set()


def test_a_portion_is_drawn_by_its_seed_and_each_test_has_its_turn() -> None:
    assert chosen("1/4") == chosen("1/4")
    assert chosen("1/4") != chosen("1/4", "2")
    assert 200 < len(chosen("1/4")) < 300
    assert chosen("1/4", slow=False) == set()
    assert set().union(*(chosen("1/4", str(seed)) for seed in range(60))) == set(IDS)


def test_a_portion_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="some"):
        is_chosen(True, IDS[0], "some", "1")
