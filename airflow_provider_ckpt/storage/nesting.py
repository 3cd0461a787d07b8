"""Comparison of folders by their URIs. No file system is opened."""

from __future__ import annotations

import os
import re

from airflow_provider_ckpt.storage.errors import InvalidStorageUriError
from airflow_provider_ckpt.storage.opening import canonical_uri, is_local

THIS_MACHINE = "file:"
_LOCAL = "file://"
_SPELLINGS = (
    (re.compile(r"s3[an]?://([^/]*@)?", re.IGNORECASE), "s3:/"),
    (re.compile(r"abfss?://", re.IGNORECASE), "abfs:/"),
)
"""Pairs of a pattern and its replacement, which make URIs of the same store equal."""
_HOST = re.compile(r"(hdfs|webhdfs|swebhdfs|abfss?)://([^/]+)", re.IGNORECASE)
"""Pattern of a scheme and the host after it. Hosts ignore case, buckets do not."""
_PORTS = {"hdfs": ":8020", "webhdfs": ":9870", "swebhdfs": ":9871"}
"""Scheme -> Hadoop's default port."""


def segments(uri: str) -> list[str]:
    """Return the parts of a URI or pattern: the store, then each folder. Links in a local path are followed."""
    try:
        plain = canonical_uri(uri)
    except InvalidStorageUriError:  # a pattern may have characters that no folder has
        plain = uri
    if plain.startswith(_LOCAL):
        plain = os.path.realpath(plain.removeprefix(_LOCAL))
    plain = _HOST.sub(_host, plain, count=1)
    for spelling, store in _SPELLINGS:
        if match := spelling.match(plain):
            plain = f"{store}{plain[match.end() :]}"
    return [part for part in plain.split("/") if part]


def lies_in(uri: str, folder: str) -> bool:
    """Return whether ``uri`` is ``folder`` or is in it."""
    inner, outer = segments(uri), segments(folder)
    return inner[: len(outer)] == outer


def in_one_store(uri: str, other: str) -> bool:
    """Return whether both URIs are in one store or on this machine. One store's credentials must not reach another."""
    places = [store_of(place) for place in (uri, other)]
    return places[0] == places[1]


def store_of(uri: str) -> str:
    """Return the scheme and the bucket or host of a URI; :data:`THIS_MACHINE` for a local path or ``memory://``."""
    if is_local(uri):
        return THIS_MACHINE
    scheme, *parts = segments(uri)
    return THIS_MACHINE if scheme == "memory:" else "//".join([scheme, *parts[:1]])


def _host(match: re.Match[str]) -> str:
    scheme, host = match[1].lower(), match[2].lower()
    return f"{scheme}://{host.removesuffix(_PORTS.get(scheme, ''))}"


def is_hidden(name: str) -> bool:
    """Return whether most readers (Spark, Hive) skip a folder of this name. They read partitions such as ``_day=1``."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
