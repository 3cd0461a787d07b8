"""``ckpt class-archive``, which makes an archive with which the drivers on this machine start sooner.

Functions import PySpark where they need it, as in :mod:`cli.run`.
"""

from __future__ import annotations

import argparse
import json
import os
from contextlib import suppress

from airflow_provider_ckpt.cli.run import refuse_without_spark
from airflow_provider_ckpt.jvm.archive_making import sweep
from airflow_provider_ckpt.jvm.class_archive import VARIABLE, archive_folder, class_archive
from airflow_provider_ckpt.jvm.errors import ArchiveNotMadeError, NoClassArchiveError
from airflow_provider_ckpt.status.exit_code import ExitCode


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "class-archive",
        help="make the class archive with which drivers start sooner",
        description="Run Spark once, for half a minute, and keep the classes that it loaded (some 170 MB) where later "
        f"drivers on this machine find them: in the folder {VARIABLE}, else in the user's cache.",
    )
    parser.add_argument("--anew", action="store_true", help="make it even if there is one already")
    parser.add_argument(
        "--look", action="store_true", help="only check whether there is one (exit code 1: there is none)"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object: path, and whether it was made now")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the archive, or check it.

    Raises:
        NoClassArchiveError: Java, Spark or the folder allows no archive.
        ForeignArchiveError: another user could have written the archive.
        ArchiveNotMadeError: the archive could not be made.
    """
    if archive_folder(os.environ) is None:
        problem = f"{VARIABLE} is off, or names a folder that a JVM does not accept (no quotes, commas, colons, * or %)"
        raise NoClassArchiveError(problem=problem)
    refuse_without_spark()
    archive = class_archive(os.environ)
    if archive is None:
        raise NoClassArchiveError(problem="Java gives no version; set JAVA_HOME to a JDK or JRE of 17 or newer")
    try:
        found = None if args.anew else archive.find()
    except OSError as error:
        raise NoClassArchiveError(problem=f"its folder cannot be read: {error}") from error
    if found is not None and not args.look:
        with suppress(OSError):
            sweep(found.parent)
    if found is not None or args.look:
        _tell(args, str(found) if found else None, made=False)
        return ExitCode.FINISHED if found else ExitCode.FAILED
    from airflow_provider_ckpt.spark.archive_training import train

    try:
        made = train(archive)
    except OSError as error:
        raise ArchiveNotMadeError(problem=str(error)) from error
    _tell(args, str(made) if made else None, made=made is not None)
    return ExitCode.FINISHED


def _tell(args: argparse.Namespace, path: str | None, *, made: bool) -> None:
    if args.json:
        print(json.dumps({"path": path, "made": made}))
    elif path is not None:
        print(f"{path} is {'made' if made else 'there'}; drivers of this user start with it")
    elif args.look:
        print("there is no class archive for this Java and this Spark; `ckpt class-archive` makes one")
    else:
        print("another process is making it")
