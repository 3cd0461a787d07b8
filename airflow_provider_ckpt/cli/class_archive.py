"""``ckpt class-archive``, which makes an archive with which the drivers on this machine start sooner."""

from __future__ import annotations

import argparse
import json
import os

from airflow_provider_ckpt.cli.run import refuse_without_spark
from airflow_provider_ckpt.jvm.class_archive import VARIABLE, archive_folder, class_archive, make
from airflow_provider_ckpt.jvm.errors import ArchiveNotMadeError, NoClassArchiveError
from airflow_provider_ckpt.status.exit_code import ExitCode


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "class-archive",
        help="make the class archive with which drivers start sooner",
        description="Run Spark once, for half a minute, and keep the classes that it loaded (some 190 MB) where later "
        f"drivers on this machine find them: in the folder {VARIABLE}, else in the user's cache.",
    )
    parser.add_argument("--force", action="store_true", help="make it even if there is one already")
    parser.add_argument(
        "--check", action="store_true", help="only check whether there is one (exit code 1: there is none)"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object: path, and whether it was made now")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the class archive, or with ``--check`` only check whether it exists. Return the exit code.

    Raises:
        NoClassArchiveError: Java, Spark or the folder allows no archive.
        ForeignArchiveError: another user could have written the archive.
        ArchiveNotMadeError: the archive could not be made.
    """
    if archive_folder(os.environ) is None:
        problem = f"{VARIABLE} is off, or names a folder that a JVM does not accept (no quotes, commas, colons, * or %)"
        raise NoClassArchiveError(problem=problem)
    refuse_without_spark()
    try:
        archive = class_archive(os.environ)
        if archive is None:
            raise NoClassArchiveError(problem="Java gives no version; set JAVA_HOME to a JDK or JRE of 17 or newer")
        path = None if args.force and not args.check else archive.find()
        is_made = path is None and not args.check
        if is_made:
            path = make(archive)
    except OSError as error:
        raise ArchiveNotMadeError(problem=str(error)) from error
    if args.json:
        print(json.dumps({"path": path and str(path), "made": is_made}))
    elif path is None:
        print("there is no class archive for this Java and this Spark; `ckpt class-archive` makes one")
    else:
        print(f"{path} is {'made' if is_made else 'there'}; drivers of this user start with it")
    return ExitCode.FAILED if path is None else ExitCode.FINISHED
