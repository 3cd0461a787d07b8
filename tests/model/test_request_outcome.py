"""Outcomes of requests, which the journal stores as text."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.request_outcome import RequestOutcome, RequestResult


@pytest.mark.parametrize("result", list(RequestResult))
@pytest.mark.parametrize("detail", ["", "savepoint 3 is released", "a/0: OSError: no space: 1 of 2"])
def test_an_outcome_is_read_back_from_its_text(result: RequestResult, detail: str) -> None:
    outcome = RequestOutcome(result, detail)
    assert RequestOutcome.parse(str(outcome)) == outcome


def test_the_text_of_an_outcome_is_readable() -> None:
    assert str(RequestOutcome.completed("savepoint 3 is released")) == "completed: savepoint 3 is released"
    assert str(RequestOutcome(RequestResult.ALREADY_STOPPING)) == "already stopping"


def test_some_results_are_final_and_one_means_success() -> None:
    assert [result for result in RequestResult if result.is_last] == ["completed", "failed", "refused"]
    assert [result for result in RequestResult if RequestOutcome(result).is_carried_out] == ["completed"]


@pytest.mark.parametrize("text", ["", "taken", "Completed: x", "failed:x", "complete"])
def test_an_unknown_text_is_no_outcome(text: str) -> None:
    with pytest.raises(UnknownFormError, match="is no answer to a request"):
        RequestOutcome.parse(text)
