"""moto's S3 server on the loopback interface, with conditional writes as atomic as S3's."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ONE_AT_A_TIME = threading.Lock()


def hold_conditions() -> None:
    """Make moto write and delete objects one at a time.

    moto first checks a condition (``If-None-Match: *``) and then writes. Between the two, its threads may let two
    writers of one name both win, some once in a thousand times. S3 does both in one step. A second call does nothing.
    """
    from moto.s3.responses import S3Response

    for name in ("put_object", "delete_object", "_key_response_post"):
        method = getattr(S3Response, name)
        if not hasattr(method, "__wrapped__"):
            setattr(S3Response, name, _alone(method))


def _alone(method: Any) -> Any:
    @functools.wraps(method)
    def alone(*args: Any, **kwargs: Any) -> Any:
        with _ONE_AT_A_TIME:
            return method(*args, **kwargs)

    return alone


@contextmanager
def s3_server() -> Iterator[str]:
    """Yield the address of a server in this process, and stop it at the end. Its buckets stay in this process."""
    from moto.server import ThreadedMotoServer

    hold_conditions()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
