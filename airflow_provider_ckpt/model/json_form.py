"""Conversion of values to readable JSON and back, by the fields of dataclasses and their types.

A dataclass becomes an object with a key for each field, in order. A tuple becomes a list, a set a sorted list. An enum
becomes its value. A :class:`TextForm` and a subtype of ``str`` become texts, and so do keys that are numbers. A field
with another form has metadata: :data:`OMIT_EMPTY`, :data:`UNRECORDED`, :func:`own_form`.
"""

from __future__ import annotations

import functools
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar, Union

from airflow_provider_ckpt.model.errors import DamagedFormError, UnknownFormError
from airflow_provider_ckpt.model.limits import Between

T = TypeVar("T")
Read = Callable[[Any], Any]
Json = Mapping[str, Any]

_PLAIN = (str, int, float, types.NoneType)
_SHOWN = 200
"""Maximum characters of a value shown in an error."""
OMIT_EMPTY = types.MappingProxyType({"json": "omit empty"})
"""Metadata of a field that the JSON omits while it is empty. The field's default must be empty, too."""
UNRECORDED = types.MappingProxyType({"json": "unrecorded"})
"""Metadata of a field that is not in the JSON."""


class TextForm(ABC):
    """A value whose JSON is its text, ``str(value)``."""

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> TextForm:
        """Return the value whose text is ``text``. Raises UnknownFormError if there is none."""


def own_form(write: Callable[[Any], Any], read: Read) -> Mapping[str, Any]:
    """Return metadata for a field that ``write`` converts to JSON and ``read`` converts back, whatever its type."""
    return {"json": "own", "write": write, "read": read}


def to_json(value: Any) -> Any:
    """Return a value in a form that ``json.dumps`` accepts. Raises TypeError if the type has no JSON form."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, TextForm):
        return str(value)
    if is_dataclass(value):
        return fields_to_json(value)
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Collection):
        return [to_json(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no JSON form")


def fields_to_json(value: Any) -> dict[str, Any]:
    """Return the JSON object of a dataclass."""
    form: dict[str, Any] = {}
    for name, write, omit_empty in _field_writers(value.__class__):
        item = getattr(value, name)
        if item or not omit_empty:
            form[name] = item if write is None else write(item)
    return form


def from_json(kind: type[T], data: Any) -> T:
    """Return the value of type ``kind`` that :func:`to_json` wrote.

    Raises UnknownFormError for fields and values of a later release, DamagedFormError for missing fields and for values
    of another type.
    """
    value: T = _reader(kind)(data)  # type: ignore[arg-type]
    return value


def reader(kind: Any) -> Read:
    """Return a function that reads values of type ``kind`` as :func:`from_json` does, but faster for many values."""
    return _reader(kind)


@functools.cache
def _reader(kind: Any) -> Read:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return _limited(*arguments)
    if origin is Literal:
        return _one_of(arguments)
    if origin in (Union, types.UnionType) and _types(kind) is None:
        return _optional([argument for argument in arguments if argument is not types.NoneType])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(origin, *arguments)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return _pair(arguments)
    if origin in (tuple, list, set, frozenset):
        return _collection(origin, arguments[0])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(kind)
    if isinstance(kind, type) and issubclass(kind, TextForm):
        return _text(kind)
    if _is_named_text(kind):
        return _named_text(kind)
    if is_dataclass(kind):
        return _object(kind)
    return _unchanged if (types_known := _types(kind)) is None else _plain(types_known)


@functools.cache
def _types(kind: Any) -> frozenset[type] | None:
    """Return the types of the JSON values of ``kind``: a text, number, bool, None or a union of these. Else None."""
    if typing.get_origin(kind) in (Union, types.UnionType):
        members = [_types(member) for member in typing.get_args(kind)]
        return (
            None if None in members else frozenset[type]().union(*(member for member in members if member is not None))
        )
    if kind is float:
        return frozenset({float, int})
    return frozenset({kind}) if kind in (str, int, bool, types.NoneType) else None


def _is_named_text(kind: Any) -> bool:
    """Return True for a subtype of ``str`` other than an enum, such as ``SubtaskId``. Texts become this type."""
    return isinstance(kind, type) and issubclass(kind, str) and kind is not str and not issubclass(kind, Enum)


def _plain(json_types: frozenset[type]) -> Read:
    def read(data: Any) -> Any:
        if type(data) not in json_types and not (isinstance(data, str) and str in json_types):
            raise _of_another_type(data)
        return data

    return read


def _limited(kind: Any, limits: Between) -> Read:
    json_types = _types(kind) or frozenset()
    least, most = limits.least, limits.most

    def read(data: Any) -> Any:
        if type(data) not in json_types:
            raise _of_another_type(data)
        if not least <= data <= most:
            raise DamagedFormError(what=f"{shown(data)} is not from {least} to {most}")
        return data

    return read


def _unchanged(data: Any) -> Any:
    return data


def _optional(kinds: list[Any]) -> Read:
    if len(kinds) > 1:
        return _unchanged
    read = reader(kinds[0])
    return read if read is _unchanged else lambda data: None if data is None else read(data)


def _one_of(allowed: tuple[Any, ...]) -> Read:
    def read(data: Any) -> Any:
        if data not in allowed:
            error = UnknownFormError if isinstance(data, str) else DamagedFormError
            raise error(what=f"{shown(data)} is none of {', '.join(map(repr, allowed))}")
        return data

    return read


def _member(kind: type[Enum]) -> Read:
    def read(data: Any) -> Any:
        try:
            return kind(data)
        except ValueError:
            error = UnknownFormError if isinstance(data, str) else DamagedFormError
            raise error(what=f"{shown(data)} is no {kind.__name__}") from None

    return read


def _text(kind: type[TextForm]) -> Read:
    def read(data: Any) -> Any:
        _check(data, str)
        try:
            return kind.parse(data)
        except ValueError:  # a number in the text has more digits than Python reads
            raise DamagedFormError(what=f"{data[:80]!r} is no {kind.__name__}") from None

    return read


def _named_text(kind: type[str]) -> Read:
    parse: Read = getattr(kind, "parse", kind)

    def read(data: Any) -> Any:
        _check(data, str)
        return parse(data)

    return read


def _mapping(origin: type, key: Any, value: Any) -> Read:
    read = reader(value)
    read_key = reader(key) if _is_named_text(key) else _unchanged

    def read_all(data: Any) -> Any:
        _check_mapping(data)
        if key is int:
            return {_number(name): read(item) for name, item in data.items()}
        if read is _unchanged and read_key is _unchanged:
            return dict(data)
        return {read_key(name): read(item) for name, item in data.items()}

    return read_all


def _pair(kinds: tuple[Any, ...]) -> Read:
    reads = [reader(kind) for kind in kinds]

    def read_all(data: Any) -> Any:
        _check(data, list | tuple)
        if len(data) != len(reads):
            raise DamagedFormError(what=f"{shown(data)} instead of {len(reads)} values")
        return tuple(read(item) for read, item in zip(reads, data, strict=True))

    return read_all


def _collection(origin: type, kind: Any) -> Read:
    read = reader(kind)

    def read_all(data: Any) -> Any:
        if type(data) is not list:
            _check(data, list | tuple)
        return origin(data) if read is _unchanged else origin(map(read, data))

    return read_all


def _object(kind: Any) -> Read:
    hints = typing.get_type_hints(kind, include_extras=True)
    own_forms = {field.name for field in _recorded(kind) if field.metadata.get("json") == "own"}
    reads = {
        field.name: field.metadata["read"] if field.name in own_forms else reader(hints[field.name])
        for field in _recorded(kind)
    }
    needed = {field.name for field in _recorded(kind) if field.default is MISSING and field.default_factory is MISSING}
    plain = {name: plain_types for name in reads.keys() - own_forms if (plain_types := _types(hints[name])) is not None}
    not_plain = {name: read for name, read in reads.items() if read is not _unchanged and name not in plain}

    def read_all(data: Any) -> Any:
        _check_mapping(data)
        if not needed <= data.keys() <= reads.keys():
            unknown, missing = sorted(data.keys() - reads.keys()), sorted(needed - data.keys())
            error = UnknownFormError if unknown else DamagedFormError
            raise error(what=f"{kind.__name__} with the unknown fields {shown(unknown)} and without {missing}")
        for name, plain_types in plain.items():
            if name in data and type(data[name]) not in plain_types:
                read_field(data, name, reads[name])
        values = {}
        try:
            for name, read in not_plain.items():
                if name in data:
                    values[name] = read(data[name])
        except UnknownFormError as error:
            raise _in_field(name, error) from None
        return kind(**{**data, **values})

    return read_all


def read_field(data: Json, name: str, read: Read) -> Any:
    """Return the field ``name`` of ``data``, read with ``read``. Raises the errors of :func:`from_json`."""
    if name not in data:
        raise DamagedFormError(what=f"it has no {name!r}")
    try:
        return read(data[name])
    except UnknownFormError as error:
        raise _in_field(name, error) from None


def _in_field(name: str, error: UnknownFormError) -> UnknownFormError:
    return type(error)(what=f"{name}: {error.data['what']}")


def _check_mapping(data: Any) -> None:
    if type(data) is not dict:  # almost every value is a dict, and the general check is slow
        _check(data, Mapping)


def _check(data: Any, kind: Any) -> None:
    if not isinstance(data, kind):
        raise _of_another_type(data)


def _of_another_type(data: Any) -> DamagedFormError:
    return DamagedFormError(what=f"{shown(data)}, a {type(data).__name__}")


def shown(data: Any) -> str:
    """Return the text of a value for an error, shortened if it is long."""
    text = repr(data)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise DamagedFormError(what=f"the key {shown(text)} is no number") from None


@functools.cache
def _field_writers(kind: Any) -> tuple[tuple[str, Read | None, bool], ...]:
    """Return (name, writer or None to write the value unchanged, True to omit an empty value) of each JSON field.

    The result is cached, because a journal has hundreds of thousands of values of few types.
    """
    hints = typing.get_type_hints(kind)
    return tuple((field.name, _writer(field, hints), field.metadata == OMIT_EMPTY) for field in _recorded(kind))


def _writer(field: Field[Any], hints: Mapping[str, Any]) -> Read | None:
    if field.metadata.get("json") == "own":
        write: Read = field.metadata["write"]
        return write
    return None if _is_plain(hints[field.name]) else to_json


def _is_plain(kind: Any) -> bool:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return all(type(argument) in _PLAIN for argument in arguments)
    if origin in (Union, types.UnionType):
        return all(map(_is_plain, arguments))
    return kind in (*_PLAIN, bool) or _is_named_text(kind)


@functools.cache
def _recorded(kind: Any) -> tuple[Field[Any], ...]:
    return tuple(field for field in fields(kind) if field.metadata.get("json") != "unrecorded")
