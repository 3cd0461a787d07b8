"""Assignment of splits: each split once, to living attempts only, and evenly towards the end."""

from __future__ import annotations

from random import Random

import pytest

from airflow_provider_ckpt.coordinator.state.enumerator import AHEAD, Assignment, RestoredSplits, SplitEnumerator
from airflow_provider_ckpt.model.ids import SubtaskId

A = [SubtaskId.of("a", n) for n in range(4)]


def source(count: int, *readers: SubtaskId, done: set[int] | None = None) -> SplitEnumerator:
    return SplitEnumerator(RestoredSplits([f"s{n}" for n in range(count)], readers, covered=done or set()))


def handed(assignments: list[Assignment]) -> dict[SubtaskId, tuple[int, ...]]:
    return {assignment.subtask: assignment.splits for assignment in assignments}


def test_splits_are_assigned_several_at_once_in_list_order() -> None:
    enumerator = source(100, A[0], A[1])
    assert handed(enumerator.due([A[0], A[1]])) == {A[0]: (0, 1, 2, 3), A[1]: (4, 5, 6, 7)}
    assert (enumerator.done, enumerator.assigned, enumerator.unassigned) == (0, 2 * AHEAD, 100 - 2 * AHEAD)


def test_more_splits_are_assigned_before_the_last_is_done() -> None:
    enumerator = source(100, A[0])
    enumerator.due([A[0]])
    for number in (0, 1):
        enumerator.completed(A[0], number)
        assert enumerator.due([A[0]]) == []
    enumerator.completed(A[0], 2)
    assert handed(enumerator.due([A[0]])) == {A[0]: (4, 5, 6)}


def test_near_the_end_each_subtask_gets_a_single_split() -> None:
    enumerator = source(5, A[0], A[1], A[2], A[3])
    first = enumerator.due([A[0], A[1], A[2], A[3]])
    assert [len(assignment.splits) for assignment in first] == [1, 1, 1, 1]
    assert enumerator.due([A[0], A[1], A[2], A[3]]) == []
    enumerator.completed(A[2], 2)
    assert handed(enumerator.due([A[0], A[1], A[2], A[3]])) == {A[2]: (4,)}


def test_a_subtask_without_splits_gets_the_last_assignment() -> None:
    enumerator = source(2, A[0], A[1], A[2])
    assignments = {assignment.subtask: assignment for assignment in enumerator.due([A[0], A[1], A[2]])}
    assert assignments[A[2]] == Assignment(A[2], (), is_last=True)
    assert not assignments[A[0]].is_last  # it asks for more later, and is notified then
    enumerator.completed(A[0], 0)
    assert enumerator.due([A[0], A[1], A[2]]) == [Assignment(A[0], (), is_last=True)]
    assert enumerator.due([A[0], A[1], A[2]]) == []


def test_a_subtask_outside_the_readers_gets_no_split() -> None:
    enumerator = source(10, A[0])
    assert Assignment(A[1], (), is_last=True) in enumerator.due([A[0], A[1]])


def test_r14_a_running_subtask_reads_splits_of_an_absent_taker() -> None:
    """The subtask that does not run may have ended unnoticed, so the running one may have to read the remaining
    splits."""
    enumerator = source(10, A[0])
    assert handed(enumerator.due([A[1]])) == {A[1]: (0, 1, 2, 3)}
    enumerator.completed(A[1], 0)
    enumerator.completed(A[1], 1)
    enumerator.completed(A[1], 2)
    assert Assignment(A[1], (), is_last=True) in enumerator.due([A[0], A[1]])


def test_r14_a_subtask_whose_log_has_its_end_gets_no_split() -> None:
    enumerator = SplitEnumerator(RestoredSplits(["x", "y"], [A[1]], ended=[A[0]]))
    assert not enumerator.may_read(A[0])
    assert handed(enumerator.due([A[0], A[1]])) == {A[1]: (0,)}


def test_r14_w13_splits_returned_before_an_end_are_assigned_after_a_takeover() -> None:
    """Found by a reviewer: the journal still assigned the splits to a subtask that never begins again."""
    restored = RestoredSplits(["x", "y", "z"], [A[1]], assigned={A[0]: [0, 1], A[1]: [2]}, ended=[A[0]])
    enumerator = SplitEnumerator(restored)
    assert (enumerator.unassigned, enumerator.assigned) == (2, 1)
    enumerator.began(A[1])
    assert handed(enumerator.due([A[1]])) == {A[1]: (0,)}


def with_a_leaving_reader_of_small_splits() -> SplitEnumerator:
    """Return an enumerator where A[0] has 12 splits and must leave, and A[1] reads the rest."""
    enumerator = source(200, A[0], A[1])
    enumerator.reads_together(A[0], 3)
    assert len(handed(enumerator.due([A[0], A[1]]))[A[0]]) == 12
    enumerator.reassign([A[1]])
    return enumerator


def test_r14_the_last_assignment_waits_while_splits_may_be_returned() -> None:
    """A[0] keeps a few splits and returns the others. It may die unnoticed after that, at its end.

    Were the other subtasks notified of the end before A[0]'s next attempt reports, no subtask would read the returned
    splits.
    """
    enumerator = with_a_leaving_reader_of_small_splits()
    last = Assignment(A[0], (), is_last=True)
    for number in range(7):
        assert last not in enumerator.due([A[0], A[1]])
        enumerator.completed(A[0], number)
    assert last not in enumerator.due([A[0], A[1]])
    enumerator.completed(A[0], 7)
    assert last in enumerator.due([A[0], A[1]])


def test_a_removed_reader_is_not_ended_while_the_source_is_kept_open() -> None:
    """Until the new subtasks begin, it counts as a reader, and one less is started because of it."""
    enumerator = with_a_leaving_reader_of_small_splits()
    for number in range(12):
        enumerator.completed(A[0], number)
    enumerator.keep_open()
    assert [assignment for assignment in enumerator.due([A[0], A[1]]) if assignment.subtask == A[0]] == []
    enumerator.allow_end()
    assert Assignment(A[0], (), is_last=True) in enumerator.due([A[0], A[1]])


def test_r14_done_splits_are_not_assigned_again() -> None:
    restored = RestoredSplits(["x", "y", "z"], [A[0]], covered={0}, published={2: (A[1], 7)})
    enumerator = SplitEnumerator(restored)
    assert handed(enumerator.due([A[0]])) == {A[0]: (1,)}
    assert not enumerator.completed(A[0], 0)


def test_r14_unread_splits_of_an_old_attempt_are_assigned_first() -> None:
    enumerator = source(100, A[0], A[1])
    enumerator.due([A[0], A[1]])
    enumerator.completed(A[0], 0)
    enumerator.began(A[0])
    assert (enumerator.done, enumerator.assigned) == (1, AHEAD)
    assert handed(enumerator.due([A[0]])) == {A[0]: (1, 2, 3, 8)}


def test_a_new_attempt_gets_the_last_assignment_again() -> None:
    enumerator = source(1, A[0], A[1])
    enumerator.due([A[0], A[1]])
    enumerator.began(A[1])
    assert enumerator.due([A[1]]) == [Assignment(A[1], (), is_last=True)]


def test_a_subtask_that_reads_splits_together_gets_more_of_them() -> None:
    enumerator = source(1000, A[0], A[1])
    enumerator.due([A[0]])
    enumerator.reads_together(A[0], 8)
    enumerator.completed(A[0], 0)
    assert handed(enumerator.due([A[0], A[1]])) == {A[1]: (4, 5, 6, 7), A[0]: tuple(range(8, 37))}
    for number in (1, 2, 3, *range(8, 20)):
        enumerator.completed(A[0], number)
    assert enumerator.due([A[0]]) == [], "it has splits for more than two reads"
    enumerator.completed(A[0], 20)
    assert len(handed(enumerator.due([A[0]]))[A[0]]) == 2 * 8


def test_near_the_end_each_share_is_at_least_a_quarter_of_a_joint_read() -> None:
    enumerator = source(200, *A)
    for name in A:
        enumerator.reads_together(name, 32)
    most = 0
    while enumerator.unassigned:
        for name, splits in handed(enumerator.due(A)).items():
            most = max(most, len(splits))
            assert len(splits) >= 8 or not enumerator.unassigned
            for number in splits:
                enumerator.completed(name, number)
    assert most == 25


def test_returned_splits_go_to_a_free_subtask() -> None:
    enumerator = source(40, A[0], A[1])
    enumerator.reads_together(A[0], 32)
    (first,) = enumerator.due([A[0]])
    assert len(first.splits) == 10
    enumerator.reads_together(A[0], 1)
    enumerator.returned(A[0], first.splits[4:])
    assert (enumerator.assigned, enumerator.unassigned) == (4, 36)
    assert handed(enumerator.due([A[0], A[1]])) == {A[1]: (4, 5, 6, 7)}


def test_a_subtask_can_return_only_splits_that_it_was_assigned() -> None:
    enumerator = source(40, A[0], A[1])
    enumerator.due([A[0], A[1]])
    enumerator.completed(A[0], 0)
    enumerator.returned(A[0], [0, 1, 4, 30])
    assert (enumerator.done, enumerator.assigned, enumerator.unassigned) == (1, 6, 33)


def test_a_free_subtask_is_not_last_while_another_may_return_splits() -> None:
    enumerator = source(20, A[0], A[1])
    enumerator.reads_together(A[0], 64)
    (first,) = enumerator.due([A[0]])
    assert len(first.splits) == 16
    for number in range(16, 20):
        enumerator.due([A[1]])
        enumerator.completed(A[1], number)
    assert enumerator.unassigned == 0
    assert enumerator.due([A[1]]) == []
    enumerator.returned(A[0], first.splits[4:])
    assert handed(enumerator.due([A[1]])) == {A[1]: (4, 5, 6)}


def test_a_new_attempt_starts_with_single_split_reads() -> None:
    enumerator = source(1000, A[0])
    enumerator.reads_together(A[0], 64)
    enumerator.began(A[0])
    assert handed(enumerator.due([A[0]])) == {A[0]: (0, 1, 2, 3)}


@pytest.mark.parametrize("seed", range(100))
def test_in_any_order_of_events_each_split_is_read_once_and_all_subtasks_end(seed: int) -> None:
    random = Random(seed)
    count, width = random.randint(1, 40), random.randint(1, 6)
    names = [SubtaskId.of("a", n) for n in range(width)]
    enumerator = source(count, *names[: random.randint(1, width)])
    queues: dict[SubtaskId, list[int]] = {name: [] for name in names}
    notified: set[SubtaskId] = set()
    read: list[int] = []
    for _ in range(2000):
        for assignment in enumerator.due([name for name in names if name not in notified or queues[name]]):
            queues[assignment.subtask] += assignment.splits
            notified |= {assignment.subtask} if assignment.is_last else set()
        name = random.choice(names)
        if queues[name] and random.random() < 0.05:  # the attempt dies and the next one starts
            queues[name].clear()
            notified.discard(name)
            enumerator.began(name)
        elif queues[name] and random.random() < 0.1:
            keep = random.randint(0, len(queues[name]))
            enumerator.returned(name, queues[name][keep:])
            del queues[name][keep:]
        elif queues[name]:
            together = random.choice([1, 1, 2, 16])
            enumerator.reads_together(name, random.choice([1, together, 64]))
            for number in [queues[name].pop(0) for _ in range(min(together, len(queues[name])))]:
                read.append(number)
                assert enumerator.completed(name, number), f"seed {seed}: {number} twice"
        assert enumerator.done + enumerator.assigned + enumerator.unassigned == count, f"seed {seed}"
    assert sorted(read) == list(range(count)), f"seed {seed}"
    assert notified == set(names), f"seed {seed}"
