"""Matching of struct fields by name, also of structs inside arrays, maps and other structs.

Spark casts structs, and unites maps of structs, by position. If two structs have the same fields in different orders,
values would get into wrong fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

Spelling = Callable[[str], str]
"""Function from a field's name to the text that the session compares: lower case, unless names are case-sensitive."""


def spelling_of(spark: SparkSession) -> Spelling:
    return str if spark.conf.get("spark.sql.caseSensitive") == "true" else str.lower


def unlike_fields(have: DataType, want: DataType, spelling: Spelling) -> str | None:
    """Return a phrase about the first struct in ``have`` whose field names differ from the struct in ``want``.

    Return None if all names match, in any order. Types of fields are not compared.
    """
    if isinstance(have, StructType) and isinstance(want, StructType):
        have_names, want_names = (sorted(map(spelling, kind.names)) for kind in (have, want))
        if have_names != want_names or len(set(have_names)) < len(have_names):
            return f"a struct of {_listed(have.names)} instead of {_listed(want.names)}"
    return next((problem for a, b in _inside(have, want, spelling) if (problem := unlike_fields(a, b, spelling))), None)


def is_in_another_order(have: DataType, want: DataType, spelling: Spelling) -> bool:
    """Return whether any struct in ``have`` orders its fields differently from the same struct in ``want``.

    Both types must have the same fields.
    """
    if isinstance(have, StructType) and isinstance(want, StructType):
        have_names, want_names = ([*map(spelling, kind.names)] for kind in (have, want))
        if have_names != want_names:
            return True
    return any(is_in_another_order(a, b, spelling) for a, b in _inside(have, want, spelling))


def in_order_of(column: Column, have: DataType, want: DataType, spelling: Spelling) -> Column:
    """Return the column of type ``have`` with its struct fields in the order of ``want``. Types do not change."""
    if not is_in_another_order(have, want, spelling):
        return column
    if isinstance(have, StructType) and isinstance(want, StructType):
        by_name = {spelling(field.name): field for field in have.fields}
        pairs = [(by_name[spelling(field.name)], field) for field in want.fields]
        fields = [
            in_order_of(column.getField(a.name), a.dataType, b.dataType, spelling).alias(b.name) for a, b in pairs
        ]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        kinds = have.elementType, want.elementType
        return F.transform(column, lambda element: in_order_of(element, *kinds, spelling))
    assert isinstance(have, MapType)
    assert isinstance(want, MapType)
    keys, values = (have.keyType, want.keyType), (have.valueType, want.valueType)
    if is_in_another_order(*keys, spelling):
        column = F.transform_keys(column, lambda key, value: in_order_of(key, *keys, spelling))
    if is_in_another_order(*values, spelling):
        column = F.transform_values(column, lambda key, value: in_order_of(value, *values, spelling))
    return column


def _inside(have: DataType, want: DataType, spelling: Spelling) -> list[tuple[DataType, DataType]]:
    if isinstance(have, StructType) and isinstance(want, StructType):
        types = {spelling(field.name): field.dataType for field in want.fields}
        return [(field.dataType, types[key]) for field in have.fields if (key := spelling(field.name)) in types]
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        return [(have.elementType, want.elementType)]
    if isinstance(have, MapType) and isinstance(want, MapType):
        return [(have.keyType, want.keyType), (have.valueType, want.valueType)]
    return []


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "no fields"
