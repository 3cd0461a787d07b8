"""Checks whether a user's function can be called with its inputs. No function is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from airflow_provider_ckpt.job.errors import InvalidJobError

Function = Callable[..., Any]
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def check_source(uid: str, location: str, function: Function) -> None:
    """Refuse a source's function that cannot be called as ``function(reader)``."""
    call = f"{name_of(function)}(read), with a DataStreamReader or DataFrameReader"
    signature = _signature(uid, location, function, call)
    try:
        signature.bind(None)
    except TypeError as error:
        problem = f"a source takes one parameter, the reader ({error})"
        raise _misfit(uid, location, function, signature, problem, call) from None


def check_split_source(uid: str, location: str, function: Function) -> None:
    """Refuse a function of a source with splits that cannot be called as ``function(reader, split)``."""
    call = f"{name_of(function)}(read, split), with a DataFrameReader and one of the splits"
    signature = _signature(uid, location, function, call)
    try:
        signature.bind(None, None)
    except TypeError as error:
        problem = f"a source with splits takes two parameters, the reader and a split ({error})"
        raise _misfit(uid, location, function, signature, problem, call) from None


def check_transform(uid: str, location: str, function: Function, parameters: Iterable[str]) -> None:
    """Refuse a transform's function that cannot be called with one DataFrame for each name, by keyword."""
    names = tuple(parameters)
    call = f"{name_of(function)}({', '.join(f'{name}=<DataFrame>' for name in names)})"
    signature = _signature(uid, location, function, call)
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        raise _misfit(uid, location, function, signature, str(error), call) from None


def single_parameter(uid: str, location: str, function: Function) -> str:
    """Return the name of a transform's only required parameter, which gets all inputs united.

    Raises InvalidJobError if the function has not exactly one such parameter.
    """
    call = f"{name_of(function)}(<parameter>=<DataFrame>), with all inputs united by column name"
    signature = _signature(uid, location, function, call)
    named = [p for p in signature.parameters.values() if p.kind in _NAMED]
    required = [p for p in named if p.default is inspect.Parameter.empty] or named[:1]
    if len(required) != 1:
        problem = (
            "inputs=[...] unites all inputs into one parameter that can be passed by name "
            f"(found {len(required)}); for several use inputs={{'parameter': [...], ...}}"
        )
        raise _misfit(uid, location, function, signature, problem, call)
    check_transform(uid, location, function, [required[0].name])
    return required[0].name


def name_of(function: Function) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _signature(uid: str, location: str, function: Function, call: str) -> inspect.Signature:
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        problem = "it must be a plain function that returns a DataFrame, not an async or generator function"
        raise _misfit(uid, location, function, inspect.signature(function), problem, call)
    return inspect.signature(function)


def _misfit(
    uid: str, location: str, function: Function, signature: inspect.Signature, problem: str, call: str
) -> InvalidJobError:
    plain = signature.replace(
        parameters=[p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()],
        return_annotation=inspect.Signature.empty,
    )
    return InvalidJobError(
        "{operator!r} ({location}): {function}{signature} does not fit: {problem}. It is called as {call}.",
        operator=uid,
        location=location,
        function=name_of(function),
        signature=str(plain),
        problem=problem,
        call=call,
    )
