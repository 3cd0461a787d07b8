"""moto's S3 server, as a program: ``python -m tests.s3.moto_server -H 127.0.0.1 -p 0``."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

from moto.server import main
from werkzeug.serving import WSGIRequestHandler

from tests.support.s3_server import hold_conditions


def leave_continue_to_werkzeug(handler: BaseHTTPRequestHandler) -> bool:
    """Leave the answer "100 Continue" to Werkzeug.

    A second answer ends the request for the AWS SDK that S3A uses. Then uploads of state store files fail or hang.
    """
    return True


if __name__ == "__main__":
    hold_conditions()
    WSGIRequestHandler.handle_expect_100 = leave_continue_to_werkzeug  # type: ignore[method-assign, assignment]
    main()
