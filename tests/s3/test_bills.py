"""docs/object-store.md shows the measured costs of a job in an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.costs.meter import Cost
from tests.s3 import bills
from tests.s3.request_log import Request, cost, parsed
from tests.s3.store import Server

_LOG = (
    '127.0.0.1 - - [27/Nov/2026 19:43:11] "GET /b?list-type=2&prefix=ckpt%2Fjob%2F&delimiter=/ HTTP/1.1" 200 -\n'
    '127.0.0.1 - - [27/Nov/2026 19:43:11] "\x1b[33mHEAD /b/ckpt/job/journal/4.json HTTP/1.1\x1b[0m" 404 -\n'
    '127.0.0.1 - - [27/Nov/2026 19:43:11] "PUT /b/ckpt/job/journal/4.json HTTP/1.1" 200 -\n'
    '127.0.0.1 - - [27/Nov/2026 19:43:11] "POST /b?delete HTTP/1.1" 200 -\n'
    '127.0.0.1 - - [27/Nov/2026 19:43:11] "POST /b/data/part-0?uploads HTTP/1.1" 200 -\n'
    " * Running on http://127.0.0.1:1\n"
)


def test_requests_in_a_servers_log_are_counted_as_s3_bills_them() -> None:
    requests = list(parsed(_LOG))
    assert [request.verb for request in requests] == ["LIST", "HEAD", "PUT", "DELETE", "POST"]
    assert requests[0] == Request("LIST", "ckpt/job/")
    assert cost(requests) == Cost(1, 3)


@pytest.mark.s3
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_request_counts_of_a_job_match_the_docs(server: Server, jars: Path, tmp_path: Path) -> None:
    """The tolerance notices one more request per second, but not one or two of a start, which waits for the JVM."""
    counted, documented = bills.bills(server, jars, tmp_path), bills.shown(bills.PAGE.read_text("utf-8"))
    assert counted.keys() == documented.keys()
    for name, requests in counted.items():
        assert (requests.gets, requests.puts) == pytest.approx(
            (documented[name].gets, documented[name].puts), rel=0.2, abs=6
        ), name
