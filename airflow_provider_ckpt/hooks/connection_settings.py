"""The root and its storage options, as an Airflow connection of type ``ckpt`` describes them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Protocol

from airflow_provider_ckpt.hooks.errors import InvalidCkptConnectionError, NoCheckpointRootError
from airflow_provider_ckpt.storage.errors import MalformedDocumentError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.nesting import THIS_MACHINE, in_one_store, store_of
from airflow_provider_ckpt.storage.redaction import credentials_in, redact_uri, user_info
from airflow_provider_ckpt.storage.refusal import UNREADABLE
from airflow_provider_ckpt.storage.strict_json import parse_json

S3 = ("s3", "s3a")
_BY_ENDPOINT = ("s3", "gs")
"""Schemes of stores whose host is in the options and not in the URI."""
_MOST_BYTES = 1 << 20


class ConnectionFields(Protocol):
    @property
    def host(self) -> str | None: ...
    @property
    def schema(self) -> str | None: ...
    @property
    def login(self) -> str | None: ...
    @property
    def password(self) -> str | None: ...


def location_of(
    conn_id: str | None,
    connection: ConnectionFields | None,
    extra: Mapping[str, Any],
    root: str | None = None,
) -> Location:
    """Return the location of a checkpoint root.

    The root is the connection's host, or ``root`` in its extra. A connection written as a URI may have the path in the
    schema (``ckpt://s3://bucket/prefix``).

    ``extra`` is the connection's extra, decoded. ``root`` overrides the root of the connection.

    Raises NoCheckpointRootError if there is no root, and InvalidCkptConnectionError if the connection or the root
    cannot be used.
    """
    if not isinstance(extra, Mapping) or (not extra and _is_unread(connection)):
        raise InvalidCkptConnectionError(conn_id=conn_id, problem="its extra is not a JSON object")
    if (problem := _problem_of(extra)) is not None:
        raise InvalidCkptConnectionError(conn_id=conn_id, problem=problem)
    uri = root or (_connection_root(connection, extra) if connection else None)
    if not uri:
        raise NoCheckpointRootError(conn_id=conn_id)
    if not isinstance(uri, str):
        raise _unusable(conn_id, root, f"its root is no text, but of type {type(uri).__name__}")
    if uri != uri.strip():
        problem = f"the root {redact_uri(uri)!r} begins or ends with white space, and would be another place"
        raise _unusable(conn_id, root, problem)
    scheme, separator, rest = uri.partition("://")
    scheme = scheme.lower()
    user = user_info(f"{scheme}://", rest) if separator else None
    if any(credentials_in(uri)) and (user is None or ":" in user or scheme in S3):
        problem = (
            "the root URI holds a user or a password; put them into the connection's login and password, a token into "
            "its storage options"
        )
        raise _unusable(conn_id, root, problem)
    if _is_relative(uri):
        problem = f"the root {redact_uri(uri)!r} is a relative path, which differs between workers"
        raise _unusable(conn_id, root, f"{problem}; write /shared/folder or s3://bucket/prefix")
    options = dict(_storage_options(conn_id, extra))
    if endpoint := extra.get("endpoint_url"):
        if not isinstance(endpoint, str):
            raise InvalidCkptConnectionError(conn_id=conn_id, problem="endpoint_url in its extra is no text")
        options.setdefault("endpoint_url", endpoint)
    if connection and (connection.login or connection.password):
        if scheme not in S3:
            raise InvalidCkptConnectionError(
                conn_id=conn_id,
                problem="login and password are used for s3:// only; put credentials into storage_options",
            )
        options.setdefault("key", connection.login)
        options.setdefault("secret", connection.password)
    if root and options:
        _refuse_elsewhere(conn_id, _connection_root(connection, extra) if connection else None, root)
    return Location(uri, options)


def _refuse_elsewhere(conn_id: str | None, own_root: Any, root: str) -> None:
    """Refuse a root that would send the connection's options, and so its secrets, to another store.

    Any user who may trigger the Dag may choose ``root``, because it is a template. Another
    bucket of S3 or Google is allowed, because the options themselves name the host. A disk is allowed, because it gets
    no options.
    """
    if store_of(root) == THIS_MACHINE:
        return
    has_root = isinstance(own_root, str) and bool(own_root)
    scheme = _scheme(root)
    if scheme in _BY_ENDPOINT and (not has_root or _scheme(own_root) == scheme):
        return
    if has_root and in_one_store(root, own_root):
        return
    setting = f"is {redact_uri(own_root)}" if has_root else "is not set"
    problem = (
        f"{redact_uri(root)!r} would be sent the storage options of the connection {conn_id!r}, whose own root "
        f"{setting}. Use a connection that names a root in that store (its host)"
    )
    raise _unusable(conn_id, root, problem)


def _unusable(conn_id: str | None, root: str | None, problem: str) -> InvalidCkptConnectionError:
    """Return the error for ``root``, or for the connection's root if ``root`` is None."""
    if root:
        return InvalidCkptConnectionError("root= cannot be used: {problem}.", conn_id=conn_id, problem=problem)
    return InvalidCkptConnectionError(conn_id=conn_id, problem=problem)


def _scheme(uri: str) -> str:
    """Return one scheme for all URIs of a kind of store, such as ``s3`` for ``s3://`` and ``s3a://``."""
    return store_of(uri).partition(":")[0]


def _is_unread(connection: ConnectionFields | None) -> bool:
    """Return True if the connection's extra is no JSON. Airflow then returns an empty extra, without the endpoint."""
    text = getattr(connection, "extra", None)
    try:
        json.loads(text or "{}")
    except UNREADABLE:
        return True
    return False


def _problem_of(extra: Mapping[str, Any]) -> str | None:
    """Return why the extra cannot be passed to a driver as JSON; None if it can. The text does not quote the extra."""
    try:
        parse_json(json.dumps(dict(extra)).encode(), uri="", what="", most_bytes=_MOST_BYTES, foreign=True)
    except MalformedDocumentError as error:
        return f"its extra cannot be read: {error.data['reason']}"
    except UNREADABLE as error:
        return f"its extra is no JSON ({type(error).__name__})"
    return None


def _is_relative(root: str) -> bool:
    """Return True if a root is relative to the working directory. ``file:x`` and ``x:y`` are relative, too."""
    if "://" in root:
        return False
    return not re.sub("^file:", "", root, flags=re.IGNORECASE).startswith("/")


def _connection_root(connection: ConnectionFields, extra: Mapping[str, Any]) -> Any:
    root = connection.host or ""
    if connection.schema:
        root = f"{root.rstrip('/')}/{connection.schema}"
    return root or extra.get("root")


def _storage_options(conn_id: str | None, extra: Mapping[str, Any]) -> Mapping[str, Any]:
    # The connection form saves empty fields as null. A connection URI carries objects as text.
    options = extra.get("storage_options") or {}
    if isinstance(options, str):
        try:
            options = parse_json(options.encode(), uri="", what="", foreign=True)
        except (MalformedDocumentError, UnicodeEncodeError):
            options = None
    if not isinstance(options, dict):
        raise InvalidCkptConnectionError(conn_id=conn_id, problem="storage_options in its extra is not a JSON object")
    return options
