"""Names of attempts, and their order."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.ids import AttemptId


@pytest.mark.parametrize(
    ("text", "attempt"),
    [
        ("0001-509376df", AttemptId(1, 0, "509376df")),
        ("0001-50937612", AttemptId(1, 0, "50937612")),
        ("0001-02-509376df", AttemptId(1, 2, "509376df")),
        ("12345-123-7", AttemptId(12345, 123, "7")),
    ],
)
def test_the_name_of_an_attempt_is_read_and_written(text: str, attempt: AttemptId) -> None:
    assert AttemptId.parse(text) == attempt
    assert (str(attempt), f"{attempt}.json") == (text, f"{text}.json")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a1",
        "1-ab",
        "0001",
        "0001-",
        "0001-00-ab",
        "0001-1-ab",
        "00001-ab",
        "0001-ab.json",
        "0001-ab-7-cd",
        "0001-\u00e4",
    ],
)
def test_a_malformed_name_is_no_attempt(text: str) -> None:
    assert AttemptId.find(text) is None
    with pytest.raises(UnknownFormError, match="is no attempt"):
        AttemptId.parse(text)


def test_attempts_are_in_order_by_epoch_and_number() -> None:
    first = AttemptId.first(2, "a")
    second = first.next("b")
    assert second == AttemptId(2, 1, "b")
    assert sorted([second, AttemptId(3, 0, "a"), AttemptId(1, 7, "a"), first]) == [
        AttemptId(1, 7, "a"),
        first,
        second,
        AttemptId(3, 0, "a"),
    ]


def test_attempts_with_equal_numbers_are_neither_equal_nor_ordered() -> None:
    first, second = AttemptId(1, 1, "a"), AttemptId(1, 1, "b")
    assert first != second
    assert not first < second
    assert not first > second
