"""Followers of a journal that is compacted at any of their requests, and compactions that die or sleep anywhere."""

# ruff: noqa: B023 - functions that run while their loop is paused

from __future__ import annotations

import random

import pytest

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.journal.errors import FencedError, JournalUnwritableError
from airflow_provider_ckpt.journal.events import CheckpointCompleted, CheckpointTriggered
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import CrashingStorage, SimulatedCrash
from tests.support.paused_storage import PausedStorage


class Owner:
    def __init__(self, storage: Storage, name: str, rng: random.Random) -> None:
        self.rng, self.journal = rng, Journal(storage, "job")
        self.journal.claim(name, Worker(), 0.0)

    def live(self, steps: int) -> None:
        for _ in range(steps):
            if self.rng.random() < 0.2:
                self.journal.compact(0.0)
            else:
                number = self.journal.state.last_triggered + 1
                self.journal.write(CheckpointTriggered(number, 0.0))
                if self.rng.random() < 0.7:
                    self.journal.write(CheckpointCompleted(number, 0.0, 1.0, "checkpoint", {}, {}))


def test_r3_a_follower_that_read_only_the_claim_can_be_overtaken() -> None:
    """The claim that the follower has read stays, so no entry that it waits for is deleted.

    For up to fifteen polls more, the follower takes the job for newly claimed.
    """
    storage = open_storage("memory:///followers-claim-only")
    owner = Owner(storage, "a", random.Random(0))
    follower = Journal(storage, "job")
    follower.refresh()
    follower.refresh()  # nothing new: there is no head record
    for number in range(1, 70):
        owner.journal.write(CheckpointTriggered(number, 0.0))
    owner.journal.compact(0.0)
    assert follower.refresh() == owner.journal.state


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("how", ["refresh", "reread"])
def test_r3_a_follower_can_be_overtaken_at_any_request(seed: int, how: str) -> None:
    at = 0
    while True:
        at += 1
        rng = random.Random(seed)
        storage = open_storage(f"memory:///followers-follow-{how}-{seed}-{at}")
        owners = [Owner(storage, "a", rng)]
        owners[0].live(2)
        hit = []

        def other() -> None:
            hit.append(1)
            if rng.random() < 0.3:
                owners.append(Owner(storage, "b", rng))
            owners[-1].live(rng.randrange(1, 12))
            if rng.random() < 0.7:
                owners[-1].journal.compact(0.0)

        follower = Journal(PausedStorage(storage, at, other), "job")
        for _ in range(6):
            owners[-1].live(rng.randrange(0, 6))
            was = follower.state.last_triggered
            seen = getattr(follower, how)()
            assert not seen.damage
            assert was <= seen.last_triggered <= owners[-1].journal.state.last_triggered
        was_hit = bool(hit)
        while follower.refresh() != owners[-1].journal.state:  # the compaction may overtake it once while it reads
            assert not was_hit
            was_hit = bool(hit)
        if not hit:
            return


@pytest.mark.parametrize("seed", range(6))
def test_r3_a_zombie_is_fenced_wherever_its_compaction_pauses(seed: int) -> None:
    at = 0
    while True:
        at += 1
        rng = random.Random(seed)
        storage = open_storage(f"memory:///followers-sleep-{seed}-{at}")
        hit = []
        successors: list[Owner] = []

        def other() -> None:
            hit.append(1)
            owner = Owner(storage, "b", rng)
            owner.live(rng.randrange(1, 12))
            if rng.random() < 0.7:
                owner.journal.compact(0.0)
            successors.append(owner)

        paused = PausedStorage(storage, 10**9, other)
        zombie = Owner(paused, "a", rng)
        zombie.live(rng.randrange(1, 12))
        paused.seen, paused.at = 0, at
        try:
            zombie.journal.compact(0.0)
        except CkptError:
            pass
        if not hit:
            return
        successor = successors[0]
        successor.journal.check_fenced()
        successor.live(3)
        with pytest.raises((FencedError, JournalUnwritableError)):
            zombie.journal.write(CheckpointTriggered(999, 0.0))
        assert Journal(storage, "job").replay() == successor.journal.state


@pytest.mark.parametrize("seed", range(6))
def test_r3_a_compaction_may_crash_anywhere(seed: int) -> None:
    at = 0
    while True:
        at += 1
        rng = random.Random(seed)
        storage = open_storage(f"memory:///followers-jdie-{seed}-{at}")
        Owner(storage, "a", rng).live(rng.randrange(1, 12))
        crashing = CrashingStorage(storage)
        owner = Owner(crashing, "b", rng)
        owner.live(rng.randrange(1, 12))
        follower = Journal(storage, "job")
        follower.refresh()
        crashing.at = crashing.verbs.count + at
        try:
            owner.journal.compact(0.0)
        except SimulatedCrash:
            pass
        else:
            return
        after = follower.refresh()
        assert after == Journal(storage, "job").replay() == owner.journal.state
        third = Owner(storage, "c", rng)
        third.live(5)
        follower.refresh()  # it may have read a claim, which stays, and nothing of the entries after it
        assert follower.refresh() == third.journal.state == Journal(storage, "job").replay()
