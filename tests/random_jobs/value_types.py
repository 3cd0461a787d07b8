"""Column types with values: as Spark, Parquet and Python have them, in the variants that two sources may declare."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

Value = Any
"""A value without its type's variant: a struct is a dict of field names in lower case, a map is a dict."""
EPOCH = datetime(2024, 1, 5, tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Kind:
    """A type. ``inner``: names and types of a struct's fields; of an array its element, of a map its value."""

    name: str
    inner: tuple[tuple[str, Kind], ...] = ()

    @property
    def ddl(self) -> str:
        if self.name == "struct":
            return f"STRUCT<{', '.join(f'{name}: {kind.ddl}' for name, kind in self.inner)}>"
        if self.name == "array":
            return f"ARRAY<{self.inner[0][1].ddl}>"
        if self.name == "map":
            return f"MAP<STRING, {self.inner[0][1].ddl}>"
        return self.name

    @property
    def arrow(self) -> pa.DataType:
        if self.name == "struct":
            return pa.struct([pa.field(name, kind.arrow) for name, kind in self.inner])
        if self.name == "array":
            return pa.list_(self.inner[0][1].arrow)
        if self.name == "map":
            return pa.map_(pa.string(), self.inner[0][1].arrow)
        return ATOMS[self.name].arrow

    def draw(self, rng: random.Random) -> Value:
        """Draw a value; one in six is null."""
        if rng.random() < 1 / 6:
            return None
        if self.name == "struct":
            return {
                name.lower(): kind.draw(rng) for name, kind in sorted(self.inner, key=lambda field: field[0].lower())
            }
        if self.name == "array":
            return [self.inner[0][1].draw(rng) for _ in range(rng.randint(0, 3))]
        if self.name == "map":
            return {key: self.inner[0][1].draw(rng) for key in rng.sample(["a", "b", "ß"], rng.randint(0, 2))}
        return ATOMS[self.name].draw(rng)

    def stored(self, value: Value) -> Any:
        """Return the value as pyarrow takes it for :attr:`arrow`."""
        if value is None:
            return None
        if self.name == "struct":
            return {name: kind.stored(value[name.lower()]) for name, kind in self.inner}
        if self.name == "array":
            return [self.inner[0][1].stored(element) for element in value]
        if self.name == "map":
            return [(key, self.inner[0][1].stored(entry)) for key, entry in value.items()]
        return value

    def plain(self, read: Any) -> Any:
        """Return a hashable form of a value, of :meth:`draw` or as pyarrow reads it, whatever the order of fields."""
        if read is None:
            return None
        if self.name == "struct":
            fields = {name.lower(): field for name, field in read.items()}
            assert fields.keys() == {name.lower() for name, _ in self.inner}, f"{self.ddl} holds {sorted(fields)}"
            return tuple((name.lower(), kind.plain(fields[name.lower()])) for name, kind in _ordered(self.inner))
        if self.name == "array":
            return tuple(self.inner[0][1].plain(element) for element in read)
        if self.name == "map":
            entries = read.items() if isinstance(read, dict) else read
            return frozenset((key, self.inner[0][1].plain(entry)) for key, entry in entries)
        return _instant(read) if self.name == "TIMESTAMP" else read


def _instant(read: datetime) -> datetime:
    """Return an instant in UTC. pyarrow reads INT96, Spark's default, as a time of pandas without a zone."""
    aware = read if read.tzinfo is not None else read.replace(tzinfo=timezone.utc)
    return EPOCH + (aware - EPOCH) // MICROSECOND * MICROSECOND


def _ordered(inner: tuple[tuple[str, Kind], ...]) -> list[tuple[str, Kind]]:
    return sorted(inner, key=lambda field: field[0].lower())


@dataclass(frozen=True)
class Atom:
    arrow: pa.DataType
    draw: Callable[[random.Random], Value]


def _drawn_instant(rng: random.Random) -> datetime:
    """Draw an instant in January 2024 with microseconds, so that no clock of any zone is set back or forward."""
    return EPOCH + timedelta(seconds=rng.randint(0, 20 * 86_400), microseconds=rng.randint(1, 999_999))


def _number(rng: random.Random) -> int:
    return rng.choice([0, -1, rng.randint(-(2**31), 2**31 - 1), 2**31 - 1])


ATOMS: Mapping[str, Atom] = {
    "STRING": Atom(pa.string(), lambda rng: rng.choice(["", "Rom", "Corso", "ß", "1", "a,\"b'"])),
    "INT": Atom(pa.int32(), _number),
    "BIGINT": Atom(pa.int64(), _number),
    "DOUBLE": Atom(pa.float64(), lambda rng: rng.choice([0.1, -2.5, 1e300])),
    "BOOLEAN": Atom(pa.bool_(), lambda rng: rng.random() < 0.5),
    "DATE": Atom(pa.date32(), lambda rng: date(1, 1, 1) + timedelta(days=rng.choice([600_000, 738_000, 739_000]))),
    "BINARY": Atom(pa.binary(), lambda rng: rng.choice([b"", b"\x00\xff", b"Rom"])),
    "TIMESTAMP": Atom(pa.timestamp("us", "UTC"), _drawn_instant),
    "TIMESTAMP_NTZ": Atom(pa.timestamp("us"), lambda rng: _drawn_instant(rng).replace(tzinfo=None)),
    "DECIMAL(10,2)": Atom(pa.decimal128(10, 2), lambda rng: Decimal(rng.randint(-(10**9), 10**9)) / 100),
    "DECIMAL(14,4)": Atom(pa.decimal128(14, 4), lambda rng: Decimal(rng.randint(-(10**9), 10**9)) / 100),
    "DECIMAL(38,18)": Atom(pa.decimal128(38, 18), lambda rng: Decimal(rng.randint(-(10**37), 10**37)).scaleb(-18)),
}
WIDER = {"INT": "BIGINT", "DECIMAL(10,2)": "DECIMAL(14,4)"}
"""Types of which a union makes the wider one."""
FIELDS = ("city", "street", "n", "since")


def draw_kind(rng: random.Random, depth: int = 2) -> Kind:
    if depth == 0 or rng.random() < 0.35:
        return Kind(rng.choice(list(ATOMS)))
    name = rng.choice(["struct", "struct", "array", "map"])
    if name != "struct":
        return Kind(name, (("", draw_kind(rng, depth - 1)),))
    names = rng.sample(FIELDS, rng.randint(2, 3))
    # two fields of one type: a swap of them does not fail
    twin = Kind(rng.choice(["STRING", "BIGINT", "TIMESTAMP"]))
    kinds = [twin, twin, draw_kind(rng, depth - 1)]
    return Kind("struct", tuple(zip(names, kinds, strict=False)))


def variant(rng: random.Random, kind: Kind, *, top: bool = True) -> Kind:
    """Return the type as another source may declare it: fields in another order, or of another width."""
    if kind.name == "struct":
        fields = [(name, variant(rng, inner, top=False)) for name, inner in kind.inner]
        rng.shuffle(fields)
        return replace(kind, inner=tuple(fields))
    if kind.inner:
        return replace(kind, inner=tuple((name, variant(rng, inner, top=False)) for name, inner in kind.inner))
    return Kind(WIDER[kind.name]) if top and kind.name in WIDER and rng.random() < 0.5 else kind
