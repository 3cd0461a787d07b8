"""Values of folders ``column=value`` that Spark misreads, because it does not check range or scale of some types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import unquote

from airflow_provider_ckpt.spark.query.errors import PartitionValueError
from airflow_provider_ckpt.spark.query.file_index import index_of

_BITS = {"byte": 8, "short": 16}
_SQL = {"byte": "TINYINT", "short": "SMALLINT"}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_NULL = "__HIVE_DEFAULT_PARTITION__"


def misread_folder(subject: str, plan: Any) -> PartitionValueError | None:
    """Return the error for the first folder of a plan's files that Spark would misread; None without any.

    Spark 4.2 reads ``p=300`` as the TINYINT 44, and ``p=5`` of Parquet files as the DECIMAL(10,2) 0.05.
    """
    leaves = plan.collectLeaves()
    for index in map(index_of, map(leaves.apply, range(leaves.size()))):
        for column, type_name, value in () if index is None else _folders(index):
            expected = _expected(type_name, value)
            if expected is not None:
                return PartitionValueError(subject=subject, column=column, value=value, type=expected)
    return None


def _folders(index: Any) -> Iterator[tuple[str, str, str]]:
    """Yield column, type and value of the folders whose types Spark does not check."""
    spec = index.partitionSpec()
    fields = {one["name"]: str(one["type"]) for one in json.loads(spec.partitionColumns().json())["fields"]}
    types = {name: type_name for name, type_name in fields.items() if type_name in _BITS or _DECIMAL.match(type_name)}
    partitions = spec.partitions()
    for number in range(partitions.size() if types else 0):
        for part in partitions.apply(number).path().toString().split("/"):
            name, _, value = part.partition("=")
            if unquote(name) in types:
                yield unquote(name), types[unquote(name)], unquote(value)


def _expected(type_name: str, value: str) -> str | None:
    """Return the type that ``value`` does not fit, in words; None if it fits, or if Spark itself refuses the value."""
    try:
        number = None if value == _NULL else Decimal(value)
    except InvalidOperation:
        return None
    if number is None or not number.is_finite():
        return None
    if type_name in _BITS:
        limit = 1 << (_BITS[type_name] - 1)
        return None if -limit <= number < limit else _SQL[type_name]
    precision, scale = map(int, _DECIMAL.match(type_name).groups())  # type: ignore[union-attr]
    _, digits, exponent = number.as_tuple()
    if exponent == -scale and len(digits) <= precision:
        return None
    return f"{type_name.upper()} (whose folders must have {scale} digits after the point)"
