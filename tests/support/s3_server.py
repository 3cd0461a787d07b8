"""moto's S3 server on the loopback interface, whose conditional writes are what S3's are."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ONE_AT_A_TIME = threading.Lock()


def hold_conditions() -> None:
    """Make moto write and delete objects one at a time.

    moto looks whether a condition (``If-None-Match: *``) is met, and writes then; its threads get in between, and two
    writers of one name both win, some once in a thousand times. S3 does the two in one step. Called again, it does
    nothing.
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
    """The address of a server of this process, stopped at the end. Its buckets outlive it, in this process."""
    from moto.server import ThreadedMotoServer

    hold_conditions()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
