"""Requests to a local S3 server, classified and priced as S3 does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from tests.costs.meter import Cost

_LINE = re.compile(r'"(?:\x1b\[[\d;]+m)?(?P<verb>GET|HEAD|PUT|POST|DELETE) (?P<path>[^ ?]+)(?:\?(?P<query>\S*))? HTTP/')
_PREFIX = re.compile(r"(?:^|&)prefix=([^&]*)")


@dataclass(frozen=True)
class Request:
    verb: str
    """S3's name, for example LIST. DELETE also for several objects."""
    path: str
    """Path of the object; the prefix for a LIST."""

    @property
    def cost(self) -> Cost:
        """Return the price class. Deletions are free, for one object or many."""
        if self.verb == "DELETE":
            return Cost(0, 0)
        return Cost(1, 0) if self.verb in {"GET", "HEAD"} else Cost(0, 1)


def parsed(lines: str) -> Iterator[Request]:
    """Parse a log of werkzeug, which colours answers other than 200."""
    for line in _LINE.finditer(lines):
        verb, path, query = line["verb"], line["path"], line["query"] or ""
        if verb == "GET" and (match := _PREFIX.search(query)):
            verb, path = "LIST", unquote(match[1])
        if verb == "POST" and query.partition("=")[0] == "delete":
            verb = "DELETE"
        yield Request(verb, path)


def cost(requests: Iterable[Request]) -> Cost:
    return sum((request.cost for request in requests), Cost(0, 0))


class RequestLog:
    """Log of a running server. Each read continues after the previous one."""

    def __init__(self, log: Path) -> None:
        self._log, self._read = log, 0

    def taken(self) -> list[Request]:
        """Return the requests since the previous call."""
        with self._log.open() as file:
            file.seek(self._read)
            lines = file.read()
        lines = lines[: lines.rfind("\n") + 1]  # the last line may be half written
        self._read += len(lines)
        return list(parsed(lines))
