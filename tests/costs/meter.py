"""Counter of requests to a storage, and their prices in an object store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_ckpt.storage.paths import Sizes
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import Verbs, WrappedStorage

DEAR, CHEAP = 0.005, 0.0004
"""List prices of S3 Standard in us-east-1, in dollars per 1,000 requests.

The first is for PUT, COPY, POST and LIST, the second for GET, HEAD and all others. Deletions are free.
"""
HOURS = 730
"""Hours of a month."""
_DEAR = frozenset({"create", "replace", "copy", "list", "files"})
_FREE = frozenset({"delete", "delete_tree", "sync"})


@dataclass(frozen=True)
class Cost:
    """Numbers of requests by price, mostly per hour."""

    gets: float
    puts: float
    """Includes lists."""

    @property
    def price(self) -> float:
        """Return the price in dollars."""
        return (self.gets * CHEAP + self.puts * DEAR) / 1000

    @property
    def a_month(self) -> float:
        """Return the price of a month in dollars, if the requests are hourly."""
        return HOURS * self.price

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.gets + other.gets, self.puts + other.puts)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.gets - other.gets, self.puts - other.puts)

    def __mul__(self, times: float) -> Cost:
        return Cost(self.gets * times, self.puts * times)


class Meter(WrappedStorage):
    """Storage that counts each verb as one request, as it is in S3 (tests/storage/test_s3.py).

    ``requests``: counts since the last call of :meth:`taken`.
    """

    def __init__(self, inner: Storage, verbs: Verbs | None = None, requests: Counter[str] | None = None) -> None:
        super().__init__(inner, verbs)
        self.requests: Counter[str] = Counter() if requests is None else requests

    def taken(self) -> Cost:
        """Return the cost since the last call, and reset the counts."""
        cheap = sum(count for verb, count in self.requests.items() if verb not in _DEAR | _FREE)
        dear = sum(count for verb, count in self.requests.items() if verb in _DEAR)
        self.requests.clear()
        return Cost(cheap, dear)

    def _mutate(self, verb: str, path: str, act: Callable[[], None]) -> None:
        self.requests[verb] += 1
        act()

    def read(self, path: str) -> bytes:
        self.requests["read"] += 1
        return super().read(path)

    def exists(self, path: str) -> bool:
        self.requests["exists"] += 1
        return super().exists(path)

    def size(self, path: str) -> int:
        self.requests["size"] += 1
        return super().size(path)

    def list(self, path: str) -> list[str]:
        self.requests["list"] += 1
        return super().list(path)

    def files(self, path: str) -> Sizes:
        self.requests["files"] += 1
        return super().files(path)

    def _wrap(self, inner: Storage) -> Meter:
        return Meter(inner, self.verbs, self.requests)
