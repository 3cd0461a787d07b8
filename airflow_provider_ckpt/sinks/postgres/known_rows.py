"""Rows of each type that is sent in PostgreSQL's binary form, with the bytes that PostgreSQL itself writes for them.

An encoder of the Arrow project silently wrote decimals with zeros inside as other numbers (arrow-adbc 4507). So each
executor uses its installed encoder only if it writes these rows correctly.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Any

import pyarrow

_VALUES: dict[str, Sequence[Any]] = {
    "bool": [True, False, None],
    "int16": [-32768, 258, None],
    "int32": [-2147483648, 16909060, None],
    "int64": [-9223372036854775808, 72623859790382856, None],
    "float": [-0.5, 3.0, None],
    "double": [1e-300, -1e300, None],
    "string": ["", '\N{GRINNING FACE}"\\,\n', None],
    "binary": [b"", b"\x00\xff\\", None],
    "date32": [-719162, 2932896, None],
    "timestamp[us]": [-62135596800000000, 253402300799999999, None],
    "decimal128(18, 6)": ["5000000000.000001", "-0.000100", None],
    "decimal128(38, 10)": ["1234567890123456789012345678.0000000001", "-10000.0000000000", None],
}
_BYTES = (
    "5047434f50590aff0d0a000000000000000000000c000000010100000002800000000004800000000000000880000000000000000000"
    "0004bf0000000000000801a56e1fc2f8f359000000000000000000000004fff4dbf900000008ff1fe2ffc59c60000000001200050002"
    "00000006003200000000000000640000001c000a00060000000a04d2162e23340d801ed204d2162e000000000064000c000000010000"
    "00000201020000000401020304000000080102030405060708000000044040000000000008fe37e43c8800759c00000008f09f988022"
    "5c2c0a0000000300ff5c00000004002c95d3000000080380e70b913b7fff0000000a0001ffff4000000600010000000a000100014000"
    "000a0001000cffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffff"
)


def known_rows() -> tuple[pyarrow.RecordBatch, bytes]:
    """Return a batch with a column for each type, and the bytes of ``COPY … TO STDOUT (FORMAT binary)``."""
    columns = [_column(name, values) for name, values in _VALUES.items()]
    return pyarrow.RecordBatch.from_arrays(columns, names=list(_VALUES)), bytes.fromhex(_BYTES)


def _column(name: str, values: Sequence[Any]) -> pyarrow.Array:
    if not name.startswith("decimal128"):
        kind = pyarrow.type_for_alias(name)
        numbers = {"date32": pyarrow.int32(), "timestamp[us]": pyarrow.int64()}
        return pyarrow.array(values, numbers.get(name, kind)).view(kind)
    precision, scale = map(int, name[len("decimal128(") : -1].split(","))
    exact = [None if one is None else decimal.Decimal(one) for one in values]
    return pyarrow.array(exact, pyarrow.decimal128(precision, scale))
