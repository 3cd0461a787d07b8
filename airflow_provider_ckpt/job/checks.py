"""Checks and conversions of the arguments of ``@job.source``, ``@job.transform`` and ``job.sink``."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, get_args

from airflow_provider_ckpt.job.controller import Controller
from airflow_provider_ckpt.job.errors import BadControllerError, BadOperatorOptionError, InvalidJobError
from airflow_provider_ckpt.job.operators import (
    Ends,
    LateRows,
    OnMalformed,
    Operator,
    OutputMode,
    ReleasePolicy,
    TemporaryFiles,
    UnfinishedFiles,
    Watermark,
)
from airflow_provider_ckpt.job.options.suggestions import unknown_option
from airflow_provider_ckpt.job.options.units import Duration, Size, parse_bytes, parse_duration
from airflow_provider_ckpt.model.setting_ranges import LARGEST_NUMBER, LARGEST_SIZE
from airflow_provider_ckpt.storage.location import Location

_SINK_METHODS = (
    "validate",
    "bind",
    "definition",
    "check_input",
    "folder_conflicts",
    "not_released_with",
    "spark_folders",
)


def check_known(decorator: str, unknown: Mapping[str, object], method: Callable[..., Any]) -> None:
    if unknown:
        parameters = inspect.signature(method).parameters.values()
        known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY or p.name == "inputs"]
        raise unknown_option(decorator, next(iter(unknown)), known)


def check_function(uid: str | None, location: str, function: object) -> None:
    if isinstance(function, Operator) or not callable(function):
        shown = f"operator {function.uid!r}" if isinstance(function, Operator) else type(function).__name__
        raise BadOperatorOptionError(
            operator=uid or "?",
            location=location,
            option="function",
            value=shown,
            expected="a plain function",
        )


def check_controllers(controllers: object) -> tuple[Controller, ...]:
    """Return the controllers of a job as a tuple.

    Raises BadControllerError if the value is no list of controllers, or if a controller's times are not numbers of
    seconds.
    """
    if not isinstance(controllers, Sequence):
        raise BadControllerError(controller=controllers, problem="controllers are a list: Job(controllers=[…])")
    for controller in controllers:
        if not isinstance(controller, Controller):
            raise BadControllerError(controller=controller, problem="it is no Controller")
        for name in ("every", "cool_down"):
            value = getattr(controller, name)
            is_number = isinstance(value, int | float) and 0 <= value < math.inf
            if not is_number or (name == "every" and not value):
                raise BadControllerError(
                    controller=controller.name, problem=f"{name} is a number of seconds, not {value!r}"
                )
    return tuple(controllers)


def check_flag(uid: str, location: str, option: str, value: object) -> None:
    if not isinstance(value, bool):
        raise BadOperatorOptionError(
            operator=uid, location=location, option=option, value=value, expected="True or False"
        )


def check_output_mode(uid: str, location: str, value: object) -> None:
    _check_choice(uid, location, "output_mode", value, get_args(OutputMode))


def check_release(uid: str, location: str, value: object) -> None:
    _check_choice(uid, location, "release", value, get_args(ReleasePolicy))


def check_gate(uid: str, location: str, value: object) -> None:
    if value is None:
        return
    try:
        inspect.signature(value).bind(None)  # type: ignore[arg-type]
    except TypeError:
        expected = "a function of a PendingRelease that returns True or False"
        raise BadOperatorOptionError(
            operator=uid, location=location, option="gate", value=value, expected=expected
        ) from None


def check_transaction(uid: str, location: str, value: object) -> None:
    if value is None or (isinstance(value, str) and value.strip()):
        return
    expected = "a name, the same for all sinks that share one transaction"
    raise BadOperatorOptionError(operator=uid, location=location, option="transaction", value=value, expected=expected)


def check_ends(uid: str, location: str, value: object, *, bounded: bool) -> None:
    if value is None:
        return
    _check_choice(uid, location, "ends", value, get_args(Ends))
    if not bounded:
        expected = "left out: a source that is not bounded does not end"
        raise BadOperatorOptionError(operator=uid, location=location, option="ends", value=value, expected=expected)


def check_in_order(uid: str, location: str, value: object, *, bounded: bool) -> None:
    check_flag(uid, location, "in_order", value)
    if value and not bounded:
        expected = "left out: rows of a live source may always be late, as far as its watermark says"
        raise BadOperatorOptionError(operator=uid, location=location, option="in_order", value=value, expected=expected)


def check_late_rows(uid: str, location: str, value: object) -> None:
    _check_choice(uid, location, "late_rows", value, get_args(LateRows))


def check_temporary_files(uid: str, location: str, value: object) -> None:
    _check_choice(uid, location, "temporary_files", value, get_args(TemporaryFiles))


def check_unfinished_files(uid: str, location: str, value: object) -> None:
    if value is not None:
        _check_choice(uid, location, "unfinished_files", value, get_args(UnfinishedFiles))


def read_max_ahead(uid: str, location: str, value: Duration | None) -> float | None:
    """Return ``max_ahead`` in seconds, or None (no limit) if it is None. Raises BadOptionError if it is no duration."""
    return None if value is None else parse_duration(value, f"{uid!r} ({location}): max_ahead")


def read_idle_timeout(uid: str, location: str, value: Duration | None, *, bounded: bool) -> float | None:
    """Return ``idle_timeout`` in seconds, or None if it is None.

    Raises BadOptionError if it is no duration, BadOperatorOptionError if it is 0 or the source is bounded.
    """
    if value is None:
        return None
    seconds = parse_duration(value, f"{uid!r} ({location}): idle_timeout")
    expected = "left out: a bounded source holds event time until it has ended" if bounded else "longer than 0"
    if bounded or not seconds:
        raise BadOperatorOptionError(
            operator=uid, location=location, option="idle_timeout", value=value, expected=expected
        )
    return seconds


def check_on_malformed(uid: str, location: str, value: object) -> None:
    if value is not None:
        _check_choice(uid, location, "on_malformed", value, get_args(OnMalformed))


def check_allow_empty(uid: str, location: str, value: object, *, bounded: bool) -> None:
    check_flag(uid, location, "allow_empty", value)
    if value and not bounded:
        expected = "left out: a source that is not bounded may always be empty"
        raise BadOperatorOptionError(
            operator=uid, location=location, option="allow_empty", value=value, expected=expected
        )


def read_after(uid: str, location: str, value: object, *, bounded: bool, reads_again: bool) -> str | None:
    """Return the uid of the source that ``after`` names; None if it is None.

    ``Job.validate`` checks that the job has such a source.
    Raises BadOperatorOptionError if the value is no source or uid, or if ``after`` contradicts ``bounded`` or
    ``reads_again``.
    """
    if value is None:
        return None
    source = value.uid if isinstance(value, Operator) else value
    if not isinstance(source, str) or not source:
        expected = "a bounded source of the job, or its uid"
        raise BadOperatorOptionError(operator=uid, location=location, option="after", value=value, expected=expected)
    if bounded or reads_again:
        reason = "a bounded source reads all files" if bounded else "reads_again=True reads all files"
        raise BadOperatorOptionError(
            operator=uid, location=location, option="after", value=source, expected=f"left out: {reason}"
        )
    return source


def _check_choice(uid: str, location: str, option: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        expected = " or ".join(map(repr, choices))
        raise BadOperatorOptionError(operator=uid, location=location, option=option, value=value, expected=expected)


def check_sink(uid: str, location: str, sink: object) -> None:
    """Refuse an object that lacks a method of :class:`~airflow_provider_ckpt.sinks.sink.Sink`."""
    if isinstance(sink, type):
        value = f"the class {sink.__name__}, not an object,"
        raise _not_a_sink(uid, location, value)
    missing = [method for method in _SINK_METHODS if not callable(getattr(sink, method, None))]
    if not isinstance(getattr(sink, "changeable", None), Collection):
        missing.append("changeable")
    if missing:
        value = f"an object of type {type(sink).__name__} (without {', '.join(missing)})"
        raise _not_a_sink(uid, location, value)


def check_folders(uid: str, location: str, sink: Any) -> None:
    """Refuse a sink whose ``spark_folders()`` returns no list of Locations, because the driver would fail later."""
    folders = sink.spark_folders({})
    if not isinstance(folders, Sequence) or not all(isinstance(folder, Location) for folder in folders):
        value = f"an object of type {type(sink).__name__} whose spark_folders() gives no list of Locations"
        raise _not_a_sink(uid, location, value)


def _not_a_sink(uid: str, location: str, value: str) -> InvalidJobError:
    return InvalidJobError(
        "sink {operator!r} ({location}): {value} is no sink. Give a sink object, such as "
        'FileSink("/lake/orders"): an object of a class that inherits airflow_provider_ckpt.Sink.',
        operator=uid,
        location=location,
        value=value,
    )


def read_limits(uid: str, location: str, size: Size | None, files: int | None) -> tuple[int | None, int | None]:
    """Return (``max_bytes_per_trigger`` in bytes, ``max_files_per_trigger``).

    At least one of them is None, for no limit.
    """
    if size is not None and files is not None:
        raise BadOperatorOptionError(
            operator=uid,
            location=location,
            option="max_files_per_trigger",
            value=files,
            expected="one limit only: Spark takes either max_bytes_per_trigger or max_files_per_trigger",
        )
    limit = None if size is None else parse_bytes(size, f"{uid!r} ({location}): max_bytes_per_trigger")
    _check_positive(uid, location, "max_bytes_per_trigger", limit)
    _check_positive(uid, location, "max_files_per_trigger", files, LARGEST_NUMBER)
    return limit, files


def _check_positive(uid: str, location: str, option: str, value: object, most: int = LARGEST_SIZE) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
    if value is not None and not whole:
        expected = "a whole number above 0"
        raise BadOperatorOptionError(operator=uid, location=location, option=option, value=value, expected=expected)
    if isinstance(value, int) and value > most:
        expected = f"{most} at the most"
        raise BadOperatorOptionError(operator=uid, location=location, option=option, value=value, expected=expected)


def read_watermark(uid: str, location: str, value: tuple[str, Duration] | None) -> Watermark | None:
    """Return the watermark, or None if ``value`` is None.

    A delay that is a number (of seconds) or a timedelta becomes Spark's interval text. Spark parses any other delay.
    """
    if value is None:
        return None
    pair = tuple(value) if isinstance(value, (tuple, list)) else ()
    if len(pair) != 2 or not all(pair[:1]) or not isinstance(pair[0], str) or pair[1] in (None, ""):
        raise BadOperatorOptionError(
            operator=uid,
            location=location,
            option="watermark",
            value=value,
            expected='a column and a delay, such as ("ts", "1 hour")',
        )
    column, delay = value
    if isinstance(delay, (int, float, timedelta)):
        seconds = parse_duration(delay, f"{uid!r} ({location}): watermark")
        return Watermark(column, f"{round(seconds * 1000)} milliseconds")
    return Watermark(column, str(delay).strip())
