"""The comparison of sinks of one query when some get missing rows with a later checkpoint (R9, R24)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from tests.random_jobs.invariants import check_prefixes

Shown = Mapping[int, str]
"""Checkpoint -> a letter for each row."""


def check(*shown: Shown) -> None:
    rows = [{at: Counter((ord(row), 0, 0, 0) for row in of) for at, of in sink_rows.items()} for sink_rows in shown]
    check_prefixes("t0", rows)


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(({3: "ab", 5: "c"}, {3: "ab", 5: "c"}), id="alike"),
        pytest.param(({3: "ab", 5: "c"}, {5: "abc"}), id="one release failed"),
        pytest.param(({3: "ab", 5: "c", 6: "d"}, {3: "ab", 6: "cd"}, {4: "ab", 6: "cd"}), id="later, each in its way"),
        pytest.param(({3: "ab", 6: "c"}, {5: "ab", 6: "c"}), id="with a checkpoint that covers nothing more"),
        pytest.param(({3: "aab"}, {3: "aba"}), id="in any order"),
    ],
)
def test_r24_a_sink_may_get_missing_rows_with_a_later_checkpoint(shown: tuple[Shown, ...]) -> None:
    check(*shown)


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(({3: "ab", 5: "c"}, {3: "a", 5: "bc"}), id="fewer at the same"),
        pytest.param(({3: "ab", 5: "c"}, {4: "a", 5: "bc"}), id="fewer at a later one"),
        pytest.param(({3: "ab", 5: "c"}, {3: "ac", 5: "b"}), id="others at the same"),
        pytest.param(({3: "ab", 5: "c"}, {4: "ac", 5: "b"}), id="others at a later one"),
        pytest.param(({3: "a", 5: "b"}, {3: "a", 4: "bc"}), id="more at an earlier one"),
        pytest.param(({3: "ab"}, {3: "ab", 4: "b"}, {4: "ab"}), id="a row twice"),
    ],
)
def test_r24_sinks_with_different_rows_at_a_checkpoint_are_found(shown: tuple[Shown, ...]) -> None:
    with pytest.raises(AssertionError, match="sinks differ between checkpoints"):
        check(*shown)
