"""moto's S3 server, as a program: ``python -m tests.s3.moto_server -H 127.0.0.1 -p 0``."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

from moto.server import main
from werkzeug.serving import WSGIRequestHandler

from tests.support.s3_server import hold_conditions


def say_nothing(handler: BaseHTTPRequestHandler) -> bool:
    """Werkzeug says "100 Continue" itself. Said twice, it is the end of the request to the AWS SDK that S3A uses, and
    uploads of a state store's files fail or hang."""
    return True


if __name__ == "__main__":
    hold_conditions()
    WSGIRequestHandler.handle_expect_100 = say_nothing  # type: ignore[method-assign, assignment]
    main()
