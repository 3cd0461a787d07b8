"""What an S3 server on this machine was asked for, by what S3 takes for it."""

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
    """LIST where S3 calls it so; DELETE of many, too."""
    path: str
    """Of a LIST, the prefix."""

    @property
    def cost(self) -> Cost:
        """A deletion costs nothing, of one or of many."""
        if self.verb == "DELETE":
            return Cost(0, 0)
        return Cost(1, 0) if self.verb in {"GET", "HEAD"} else Cost(0, 1)


def parsed(lines: str) -> Iterator[Request]:
    """Of a log as werkzeug writes it, answers other than 200 in colours."""
    for line in _LINE.finditer(lines):
        verb, path, query = line["verb"], line["path"], line["query"] or ""
        if verb == "GET" and (found := _PREFIX.search(query)):
            verb, path = "LIST", unquote(found[1])
        if verb == "POST" and query.partition("=")[0] == "delete":
            verb = "DELETE"
        yield Request(verb, path)


def cost(requests: Iterable[Request]) -> Cost:
    return sum((one.cost for one in requests), Cost(0, 0))


class RequestLog:
    """Of a running server, read on from where it was read last."""

    def __init__(self, log: Path) -> None:
        self._log, self._read = log, 0

    def taken(self) -> list[Request]:
        """What has come since this was asked last."""
        with self._log.open() as file:
            file.seek(self._read)
            lines = file.read()
        lines = lines[: lines.rfind("\n") + 1]  # the last one may be written by half yet
        self._read += len(lines)
        return list(parsed(lines))
