"""Journal of a driver that continues as another version of its job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.event_codec import decode, encode
from airflow_provider_ckpt.journal.kinds.event import HISTORY
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.state_json import state_from_json, state_to_json
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from tests.journal.samples import WORKER, folded, of_upgrades

GOLDEN = Path(__file__).parents[1] / "golden" / "upgrade-v1.json"


def upgraded(*more: ev.Event) -> JobState:
    return folded(*of_upgrades(), *more)


def test_golden_events_of_an_upgrade_are_read_and_written() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert [decode(event) for event in golden] == of_upgrades()
    assert [json.loads(encode(event)) for event in of_upgrades()] == golden


def test_an_upgrading_driver_is_the_same_until_another_driver_claims() -> None:
    state = upgraded()
    assert (state.epoch, state.driver_since, state.status) == (4, 2, "RUNNING")
    assert state_from_json(json.loads(json.dumps(state_to_json(state)))) == state
    assert upgraded(ev.EpochClaimed(5, "t-5", WORKER, 150.0)).driver_since == 0


@pytest.mark.parametrize("more", [{"releases_only": True}, {"deployment": 4}], ids=["release", "workers"])
def test_a_release_or_deployment_takes_no_request_of_the_driver(more: dict[str, int]) -> None:
    assert upgraded(ev.EpochClaimed(5, "t-5", WORKER, 150.0, **more)).driver_since == 0  # type: ignore[arg-type]


def test_an_upgrade_request_is_open_until_the_new_version_answers() -> None:
    state = upgraded()
    assert state.outcomes == {"u-1": RequestOutcome.completed("the job runs as v2.py:job")}
    assert state.answered == {"u-1", "u-2"}


@pytest.mark.parametrize(("upgrades", "is_known"), [(2, True), (0, False)], ids=["the same", "another"])
def test_a_driver_remembers_its_old_answers_after_an_upgrade(upgrades: int, is_known: bool) -> None:
    """The file of a failed stop stays, while the journal forgets the outcomes of all but the last answers."""
    old = ev.RequestAnswered("s-0", "stop", RequestOutcome.failed("no savepoint"), 138.0)
    done = RequestOutcome.completed("done")
    more = [ev.RequestAnswered(f"r-{number}", "reconfigure", done, 139.0) for number in range(HISTORY)]
    state = upgraded(old, *more, ev.EpochClaimed(5, "t-2", WORKER, 150.0, upgrades=upgrades))
    assert "s-0" not in state.outcomes
    assert ("s-0" in state.answered) is is_known
