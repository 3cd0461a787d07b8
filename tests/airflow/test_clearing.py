from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_provider_ckpt.operators.clearing import was_cleared
from airflow_provider_ckpt.operators.pointer import Pointer


def before(try_number: int, max_tries: int, clear_number: int | None = 0) -> Pointer:
    return Pointer("orders", "/root", try_number, max_tries, clear_number=clear_number)


@pytest.mark.parametrize(
    ("case", "pointer", "try_number", "max_tries", "retries", "clear_number", "expected"),
    [
        ("a retry", before(1, 2), 2, 2, 2, 0, False),
        ("a retry of a cleared task", before(3, 4, 1), 4, 4, 2, 1, False),
        ("a clear", before(1, 2), 2, 3, 2, 1, True),
        ("a clear of a task that used up its retries", before(3, 2), 4, 5, 2, 1, True),
        ("a retry after retries were edited", before(1, 2), 2, 2, 5, 0, False),
        ("a retry after retries were lowered", before(1, 2), 2, 2, 1, 0, False),
        ("a clear after retries were lowered by the tries so far", before(1, 2), 2, 2, 1, 1, True),
        ("a retry while another task of the run was cleared", before(1, 2), 2, 2, 2, 1, False),
        ("a clear of the running last try", before(3, 2), 4, 2, 2, 1, True),
        ("a retry after retries were lowered, with an edited pointer", before(1, 2, None), 2, 2, 1, 0, False),
        ("a retry after retries were lowered, without a count", before(1, 2), 2, 2, 1, None, False),
    ],
)
def test_a_clear_is_distinguished_from_a_retry(
    case: str,
    pointer: Pointer,
    try_number: int,
    max_tries: int,
    retries: int,
    clear_number: int | None,
    expected: bool,
) -> None:
    ti = SimpleNamespace(try_number=try_number, max_tries=max_tries)
    assert was_cleared(pointer, ti, retries, clear_number) is expected, case
