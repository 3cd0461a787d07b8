from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ckpt.operators.group_run import MAX_LENGTH, default_job_id, with_generation
from airflow_provider_ckpt.storage.layout import check_job_id

# Names of few characters make near misses likely. Longer and stranger names come in addition.
_SHORT = st.text(st.sampled_from("ab.~/_-:2E3Am"), min_size=1, max_size=6)
_NAME = _SHORT | st.text(min_size=1, max_size=250)
_TASK = st.tuples(_NAME, _NAME, _NAME, st.integers(-1, 12))


def test_the_default_job_id_is_readable() -> None:
    job_id = default_job_id("orders", "load", "scheduled__2026-01-01T00:00:00+00:00")
    assert job_id == "orders.load.scheduled__2026-01-01T00~3A00~3A00~2B00~3A00"


def test_the_default_job_id_has_the_map_index_and_a_quoted_dot() -> None:
    assert default_job_id("d", "group.load", "r", 0) == "d.group~2Eload.r~m0"


@given(_TASK, _TASK)
def test_two_tasks_never_share_a_job_id(task: tuple[str, str, str, int], other: tuple[str, str, str, int]) -> None:
    assert (default_job_id(*task) == default_job_id(*other)) == (task == other)


@given(_TASK, st.integers(0, 3))
def test_every_default_job_id_is_valid(task: tuple[str, str, str, int], generation: int) -> None:
    check_job_id(with_generation(default_job_id(*task), generation))


@given(_TASK, _TASK, st.integers(0, 3), st.integers(0, 3))
def test_a_job_id_with_a_generation_is_unique(
    task: tuple[str, str, str, int], other: tuple[str, str, str, int], first: int, second: int
) -> None:
    same = with_generation(default_job_id(*task), first) == with_generation(default_job_id(*other), second)
    assert same == ((task, first) == (other, second))


def test_long_names_with_equal_beginnings_get_different_job_ids() -> None:
    job_id, other = (default_job_id("d" * 240, "t", run) for run in ("r1", "r2"))
    assert job_id != other
    assert len(job_id) == len(other) == MAX_LENGTH
