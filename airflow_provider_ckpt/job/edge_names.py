"""The name of an edge. It must never change, because it is the name of a Spark source."""

from __future__ import annotations

import hashlib


def edge_uid(producer: str, consumer: str) -> str:
    """Return ``producer__consumer``, which depends on the two uids alone, so that other operators may change.

    Different pairs have different names. The first double underscore separates the parts of a plain name. If it would
    not (``a_`` + ``b``, ``a__b`` + ``c``), a hash of the pair is added.
    """
    plain = f"{producer}__{consumer}"
    if "__" not in producer and not producer.endswith("_") and "__" not in consumer:
        return plain
    pair = f"{producer}/{consumer}".encode()
    return f"{plain}__{hashlib.sha256(pair).hexdigest()[:12]}"
