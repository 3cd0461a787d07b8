"""Outcomes of requests, which the journal stores as text."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.request_outcome import RequestOutcome, RequestResult


@pytest.mark.parametrize("result", list(RequestResult))
@pytest.mark.parametrize("detail", ["", "savepoint 3 is released", "a/0: OSError: no space: 1 of 2"])
def test_an_answer_is_its_text(result: RequestResult, detail: str) -> None:
    outcome = RequestOutcome(result, detail)
    assert RequestOutcome.parse(str(outcome)) == outcome


def test_the_text_is_for_people_to_read() -> None:
    assert str(RequestOutcome.completed("savepoint 3 is released")) == "completed: savepoint 3 is released"
    assert str(RequestOutcome(RequestResult.ALREADY_STOPPING)) == "already stopping"


def test_only_the_last_word_tells_how_it_went() -> None:
    assert [result for result in RequestResult if result.is_last] == ["completed", "failed", "refused"]
    assert [result for result in RequestResult if RequestOutcome(result).is_carried_out] == ["completed"]


@pytest.mark.parametrize("text", ["", "taken", "Completed: x", "failed:x", "complete"])
def test_what_no_driver_says_is_no_answer(text: str) -> None:
    with pytest.raises(UnknownFormError, match="is no answer to a request"):
        RequestOutcome.parse(text)
