"""Number of splits that are read together, adapted to the time they take."""

from __future__ import annotations

from random import Random

import pytest

from airflow_provider_ckpt.task.split_reading import SplitBatchSize


def after(took: list[float], most: int = 64) -> list[int]:
    """Return the next number of splits after each reading of the current number."""
    size, counts = SplitBatchSize(most), []
    for seconds in took:
        size.took(size.now, seconds)
        counts.append(size.now)
    return counts


def read(job: float, each: float, times: int, most: int = 64) -> list[int]:
    """Return the numbers of splits read. Each split takes ``each`` seconds, and each job ``job`` seconds on top."""
    size, counts = SplitBatchSize(most), []
    for _ in range(times):
        counts.append(size.now)
        size.took(size.now, job + size.now * each)
    return counts


def test_the_first_split_is_read_alone() -> None:
    assert SplitBatchSize(64).now == 1


def test_the_number_of_small_splits_doubles_up_to_a_bound() -> None:
    assert after([1.0] * 7) == [2, 4, 8, 16, 32, 64, 64]
    assert after([1.0] * 4, most=5) == [2, 4, 5, 5]


def test_the_number_of_very_small_splits_quadruples() -> None:
    assert after([0.1] * 5) == [2, 8, 32, 64, 64]
    assert after([0.1] * 4, most=5) == [2, 5, 5, 5]


def test_splits_of_three_seconds_or_more_are_read_alone() -> None:
    assert after([3.0, 5.0, 3.0, 60.0]) == [1, 1, 1, 1]


@pytest.mark.parametrize("job", [0.1, 0.3, 1.0, 2.9])
def test_splits_are_read_together_if_the_spark_job_takes_most_time(job: float) -> None:
    assert read(job, 0.001, 8)[-1] == 64


def test_splits_without_a_gain_are_read_singly_with_rare_trials() -> None:
    tried = [number for number, count in enumerate(read(0.05, 1.0, 20)) if count > 1]
    assert tried == [1, 6, 11, 16]


def test_a_number_of_splits_that_takes_a_few_seconds_stays() -> None:
    assert after([1.2, 1.5, 3.9, 5.7]) == [2, 4, 4, 4]


def test_slow_batches_reduce_the_number_of_splits() -> None:
    assert after([0.1, 0.1, 0.1, 12.0]) == [2, 8, 32, 8]
    assert after([0.1, 0.1, 30.0]) == [2, 8, 1]


def test_the_user_s_bound_of_one_holds() -> None:
    assert after([0.0] * 3, most=1) == [1, 1, 1]


def test_a_batch_below_the_current_number_does_not_reduce_it() -> None:
    """Towards the end a subtask has fewer splits than it could read at once."""
    size = SplitBatchSize(64)
    for count in (1, 2, 3):
        size.took(count, 0.1)
    assert size.now == 8


def test_each_failure_doubles_the_time_of_single_splits() -> None:
    size = SplitBatchSize(64)

    def alone() -> int:
        size.failed()
        for count in range(1, 1000):
            assert size.now == 1
            size.took(1, 0.1)
            if size.now > 1:
                return count
        raise AssertionError("never together again")

    assert (alone(), alone(), alone()) == (16, 32, 64)


@pytest.mark.parametrize("seed", range(50))
def test_a_batch_of_splits_takes_a_few_seconds(seed: int) -> None:
    random = Random(seed)
    job, each = random.uniform(0.01, 1.0), random.uniform(0.001, 3.0)
    assert all(count == 1 or count * each <= 2 * max(3.0, 1.5 * (job + each)) for count in read(job, each, 50))


def test_a_batch_is_aborted_after_three_times_its_expected_time() -> None:
    size = SplitBatchSize(64)
    size.took(1, 0.1)
    assert size.abort_after == 9.0
    size.took(1, 6.0)
    assert size.abort_after == pytest.approx(3 * 1.5 * 3.05)
