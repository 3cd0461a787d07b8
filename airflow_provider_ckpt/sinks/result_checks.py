"""Checks of the values that a user's sink returns, because they go into durable logs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from airflow_provider_ckpt.sinks.errors import SinkContractError
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, StageRequest
from airflow_provider_ckpt.storage.errors import MalformedDocumentError
from airflow_provider_ckpt.storage.strict_json import parse_json

_AROUND = 10
"""Maximum number of JSON levels that a log entry puts around a handle."""


def checked_handle_of(uid: str, sink: BoundSink, result: object, request: StageRequest) -> Handle:
    """Check the result of :meth:`BoundSink.stage`, and return it as a handle.

    Raises SinkContractError.
    """
    problem = _handle_problem(result, request)
    if problem is not None:
        raise _refused(uid, sink, "stage", problem, 'a JSON object with "id" (request.id) and "rows" (how many)')
    assert isinstance(result, Mapping)
    return dict(result)


def _handle_problem(result: object, request: StageRequest) -> str | None:
    """Return what is wrong with a handle; None if it is right. No values are shown: they may be private to the sink."""
    if not isinstance(result, Mapping):
        return f"a value of type {type(result).__name__}"
    if result.get("id") != request.id:
        return 'an object whose "id" is not that of the request'
    if type(result.get("rows")) is not int:  # gates get the sum of these counts
        return 'an object whose "rows" is no whole number'
    try:
        text = json.dumps(dict(result), allow_nan=False)
        parse_json(b"[" * _AROUND + text.encode() + b"]" * _AROUND, uri=request.id, what="handle")
    except (TypeError, ValueError, RecursionError) as error:
        return f"an object that is no JSON ({error})"
    except MalformedDocumentError as error:
        return f"an object that no log can hold ({error.data['reason']})"
    return None


def checked_counts(uid: str, sink: BoundSink, result: object, handles: Sequence[Handle]) -> dict[str, int]:
    """Check the result of :meth:`BoundSink.release` for these handles, and return it as counts.

    Raises SinkContractError. The rows may be visible then; the next call will detect that.
    """
    if not isinstance(result, Mapping):
        problem = f"a value of type {type(result).__name__}"
    # the next start compares this count to detect that the target has lost a release
    elif handles and "rows" not in result:
        problem = 'counts without "rows"'
    elif wrong := sorted(str(name) for name, count in result.items() if type(count) is not int):
        problem = f"no whole number for {', '.join(wrong)}"
    else:
        return dict(result)
    raise _refused(uid, sink, "release", problem, 'counts of what became visible, of type int: {"rows": 5}')


def checked_together(uid: str, sink: BoundSink, result: object, sinks: int) -> list[object]:
    """Check that :meth:`BoundSink.release_together` returned a list with one item for each sink, and return the list.

    Raises SinkContractError.
    """
    if isinstance(result, Sequence) and not isinstance(result, str) and len(result) == sinks:
        return list(result)
    length = f" of length {len(result)}" if isinstance(result, list) else ""
    problem = f"a value of type {type(result).__name__}{length}"
    raise _refused(uid, sink, "release_together", problem, f"a list of the counts of all {sinks} sinks")


def _refused(uid: str, sink: BoundSink, call: str, problem: str, needed: str) -> SinkContractError:
    return SinkContractError(
        "sink {sink!r} ({kind}) returned from {call}() {problem}; it has to be {needed}",
        sink=uid,
        kind=type(sink).__qualname__,
        call=call,
        problem=problem,
        needed=needed,
    )
