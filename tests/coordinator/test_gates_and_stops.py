"""Stops while gates hold sinks: at the end of data, and when a closed gate opens."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.coordinator.protocol.effects import EndJob
from airflow_provider_ckpt.coordinator.state.release_state import GATE_PAUSE
from airflow_provider_ckpt.model.job_status import RuntimeMode
from tests.coordinator.harness import Harness, graph, only, vertex

TWO = graph(vertex("v", sources="live", sinks="a b"))
BOUNDED = graph(vertex("v", sources="v", bounded="v", sinks="a b"))


def keep_gate_closed(h: Harness, seconds: float = 100.0) -> None:
    until = h.now + seconds
    while h.now < until:
        h.at(h.now + GATE_PAUSE)
        if "b" in h.c.releasing:
            h.held("b")


def with_savepoint(gate_opens: bool) -> Harness:
    """Return a stop whose savepoint 2 is completed and released in "a".

    The gate of "b" held checkpoint 1 and is polled again.
    """
    h = Harness(TWO, interval=1e6)
    h.at(1e6)
    h.ack()
    h.released(sink="a")
    h.held("b")
    h.request("stop", "r")
    h.ack()
    if gate_opens:
        h.at(h.now + GATE_PAUSE)
        assert h.c.releasing.get("b") == 2
    h.released(sink="a")
    return h


@pytest.mark.parametrize("exit_if_it_fails", [False, True])
@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_r16_a_stop_at_the_end_of_data_does_not_wait_for_a_gate(exit_if_it_fails: bool, mode: RuntimeMode) -> None:
    h = Harness(BOUNDED, timeout=60.0, mode=mode)
    h.end_of_data()
    h.ack(finished=True)
    h.released(sink="a")
    h.held("b")
    assert not only(EndJob, h.effects), "without a stop it waits"
    h.request("stop", "r", exit_if_it_fails=exit_if_it_fails)
    keep_gate_closed(h)
    [end] = only(EndJob, h.effects)
    assert end.status == "STOPPED"
    [*_, answer] = h.answers("r")
    assert "covers all data" in str(answer)
    assert "gates of b" in str(answer)


def test_r16_the_answer_names_the_gate_and_not_its_transaction() -> None:
    h = Harness(TWO, interval=1e6)
    h.at(1e6)
    h.ack()
    for sink in ("a", "b"):
        h.held(sink, gate_of="b")
    h.request("stop", "r")
    h.ack()
    keep_gate_closed(h)
    [*_, answer] = h.answers("r")
    assert "the gates of b hold" in str(answer)


def test_r16_a_stop_from_before_the_end_of_data_does_not_wait_for_a_gate() -> None:
    h = Harness(BOUNDED, timeout=60.0)
    h.request("stop", "r")
    h.at(1.0)
    h.end_of_data()
    h.ack(finished=True)
    h.released(sink="a")
    h.held("b")
    keep_gate_closed(h)
    assert [end.status for end in only(EndJob, h.effects)] == ["STOPPED"]


def test_r16_a_stop_waits_for_a_release_whose_gate_opened() -> None:
    h = with_savepoint(gate_opens=True)
    assert not only(EndJob, h.effects)
    h.released(sink="b")
    assert [end.status for end in only(EndJob, h.effects)] == ["STOPPED"]


def test_r16_a_stop_fails_if_the_release_after_its_gate_fails() -> None:
    h = with_savepoint(gate_opens=True)
    h.release_failed("b", terminal=True)
    assert [end.status for end in only(EndJob, h.effects)] == ["FAILED"]
