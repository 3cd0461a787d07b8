"""The class archive that drivers start with: whose it is, and that it is whole. It is of no rule of the protocol."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ARCHIVE = "tests/launch/test_class_archive.py"
_MAKING = "tests/launch/test_archive_making.py"
_WATCH = "tests/launch/test_jvm_watch.py"

LAUNCHING = (
    Mutant(
        "archive-of-anybody",
        "-",
        "ClassArchive.find",
        "        check_ours(path)\n",
        "",
        (_ARCHIVE,),
        "code that another user has put in the archive's place runs in each driver's JVM",
    ),
    Mutant(
        "archive-of-another-user",
        "-",
        "trust:_check",
        "    if found.st_uid not in (ROOT, os.geteuid()):",
        "    if False:",
        (f"{_ARCHIVE}::test_what_belongs_to_another_user_is_refused",),
        "code in another user's archive runs in each driver's JVM if only that user can write to it",
    ),
    Mutant(
        "archive-written-by-others",
        "-",
        "check_ours",
        "    _check(path, 0o022)",
        "    _check(path, 0)",
        (f"{_ARCHIVE}::test_what_others_can_write_is_refused",),
        "code that another user writes into our archive runs in each driver's JVM",
    ),
    Mutant(
        "archive-folder-written-by-others",
        "-",
        "check_folder",
        "    _check(folder, 0o022)",
        "    _check(folder, 0)",
        (f"{_ARCHIVE}::test_what_others_can_write_is_refused",),
        "another user replaces our archive by a file of root or a link, which then runs in each driver's JVM",
    ),
    Mutant(
        "archive-folder-above-of-anybody",
        "-",
        "check_folder",
        "            _check(above, 0o002 if found.st_gid in (ROOT, os.getegid()) else 0o022)",
        "            _check(above, 0)",
        (f"{_ARCHIVE}::test_a_folder_above_that_everybody_writes_to_is_refused_unless_it_is_sticky",),
        "another user renames the folder between the check and the JVM's start, and each driver's JVM runs its code",
    ),
    Mutant(
        "archive-cut-short",
        "-",
        "class_archive:_is_whole",
        '    return stat.S_ISREG(found.st_mode) and path.suffixes[-2:-1] == [f".{found.st_size}"]',
        "    return stat.S_ISREG(found.st_mode)",
        (f"{_ARCHIVE}::test_an_archive_that_was_cut_short_is_none",),
        "a JVM crashes on a partial archive, and so does each driver",
    ),
    Mutant(
        "archive-named-before-it-is-on-the-disk",
        "-",
        "_publish",
        "    sync_file(str(made))\n",
        "",
        (f"{_MAKING}::test_nothing_is_taken_for_an_archive_before_all_of_it_is_written",),
        "a file with the archive's name and length is empty after a power failure",
    ),
    Mutant(
        "archive-made-in-its-place",
        "-",
        "make",
        '        made = archive.folder / f"{stem}.{os.getpid()}.tmp"',
        '        made = archive.folder / f"{stem}.7.jsa"',
        (f"{_MAKING}::test_nothing_is_taken_for_an_archive_before_all_of_it_is_written",),
        "a driver uses an untested archive, or one that a killed process has left",
    ),
    Mutant(
        "archive-made-by-two",
        "-",
        "_alone",
        "            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "            pass",
        (f"{_MAKING}::test_the_second_of_two_does_not_wait_and_makes_nothing",),
        "two processes each write a gigabyte, and each deletes the other's file",
    ),
    Mutant(
        "archive-not-tried-out",
        "-",
        "_try_out",
        "    if done.returncode:",
        "    if False:",
        (f"{_MAKING}::test_an_archive_that_the_jvm_does_not_take_is_not_kept",),
        "each driver reads an archive that it cannot use, without a warning",
    ),
    Mutant(
        "archive-over-the-users-own",
        "-",
        "_archive_options",
        "    if says_what_is_shared(environ, given):",
        "    if False:",
        (f"{_ARCHIVE}::test_whoever_has_switched_it_off_or_chosen_what_is_shared_keeps_that",),
        "a JVM with the user's -Xshare:on does not start if it rejects our archive",
    ),
    Mutant(
        "whoever-has-the-number-of-a-jvm-killed",
        "R8",
        "_SCRIPT",
        '2>/dev/null | cut -d \' \' -f 20)" = "$2" ]; }',
        '2>/dev/null | cut -d \' \' -f 20)" != "" ]; }',
        (_WATCH,),
        "the watch kills an unrelated process that has the JVM's process id",
    ),
    Mutant(
        "watch-killed-with-its-driver",
        "R8",
        "watch_jvm",
        "            start_new_session=True,\n",
        "",
        (_WATCH,),
        "the JVM of a task whose whole process group Airflow kills runs for ever",
    ),
)
