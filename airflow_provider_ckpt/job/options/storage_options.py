"""The environment variable that passes storage options. They may be secret, so no file and no error contains them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.job.errors import BadOptionError
from airflow_provider_ckpt.storage.errors import MalformedDocumentError
from airflow_provider_ckpt.storage.strict_json import parse_json

STORAGE_OPTIONS_VARIABLE = "CKPT_STORAGE_OPTIONS"
_MOST_BYTES = 1 << 20


def read_storage_options(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the storage options in ``environ``. Empty if the variable is not set or is empty.

    Raises BadOptionError if the variable has no JSON object. The error has the place in the JSON, but not its content.
    """
    text = environ.get(STORAGE_OPTIONS_VARIABLE, "").strip()
    options, problem = _parse(text) if text else ({}, None)
    if problem is not None:
        # Raised outside of `_parse`, because a JSONDecodeError as its context would have the whole text.
        raise _bad_options(problem)
    return options


def _parse(text: str) -> tuple[dict[str, Any], str | None]:
    try:
        options = parse_json(text.encode(), uri="", what="", most_bytes=_MOST_BYTES, foreign=True)
    except MalformedDocumentError as error:
        return {}, f"cannot be read: {error.data['reason']}"
    except UnicodeEncodeError:
        return {}, "is not UTF-8"
    if not isinstance(options, dict):
        return {}, f"holds a JSON {type(options).__name__}"
    return options, None


def storage_options_environ(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variable that passes ``options`` to another process. Empty if there are no options."""
    if not options:
        return {}
    try:
        return {STORAGE_OPTIONS_VARIABLE: json.dumps(dict(options))}
    except (TypeError, ValueError, RecursionError):
        problem = "cannot be made: a storage option is no JSON value"
    raise _bad_options(problem)


def _bad_options(problem: str) -> BadOptionError:
    """Return an error that does not quote the options, because they may be secret."""
    return BadOptionError(
        "the environment variable {variable} {problem}. It must be one JSON object of storage options.",
        variable=STORAGE_OPTIONS_VARIABLE,
        problem=problem,
    )
