"""The name of an edge, which is the name of a Spark source and so must stay the same for ever."""

from __future__ import annotations

import hashlib


def edge_uid(producer: str, consumer: str) -> str:
    """``producer__consumer``: a function of the two uids alone, so other operators may come and go.

    Different pairs have different names. The first double underscore splits a plain name again; where it
    would not (``a_`` + ``b``, ``a__b`` + ``c``) a hash of the pair is added.
    """
    plain = f"{producer}__{consumer}"
    if "__" not in producer and not producer.endswith("_") and "__" not in consumer:
        return plain
    pair = f"{producer}/{consumer}".encode()
    return f"{plain}__{hashlib.sha256(pair).hexdigest()[:12]}"
