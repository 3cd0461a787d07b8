"""Errors around the start of a JVM."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TransientError


class ForeignArchiveError(InvalidInputError):
    """A class archive or its folder to which another user can write. ``data``: path, problem."""

    template = (
        "{path} {problem}, and a class archive is code that each driver runs. Give it to the user that runs drivers, "
        "or to root, with no right for others to write (chmod go-w), or name another folder in CKPT_CLASS_ARCHIVE"
    )


class NoClassArchiveError(InvalidInputError):
    """A host on which no class archive can be used. ``data``: problem."""

    template = "no class archive can be made here: {problem}"


class ArchiveNotMadeError(TransientError):
    """A failed attempt to make a class archive. ``data``: problem."""

    template = (
        "the class archive was not made: {problem}. Drivers start with the previous archive, or with none; try again "
        "with `ckpt class-archive`"
    )
