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
        "launch/class_archive.py",
        "            check_ours(path)\n",
        "",
        (_ARCHIVE,),
        "what another user has put there runs in each driver's JVM",
    ),
    Mutant(
        "archive-of-another-user",
        "-",
        "launch/trust.py",
        "    if found.st_uid not in (ROOT, os.geteuid()):",
        "    if False:",
        (f"{_ARCHIVE}::test_what_belongs_to_another_user_is_refused",),
        "as above: it is enough that nobody else may write to it",
    ),
    Mutant(
        "archive-written-by-others",
        "-",
        "launch/trust.py",
        "    _check(path, 0o022)",
        "    _check(path, 0)",
        (f"{_ARCHIVE}::test_what_others_can_write_is_refused",),
        "as above: somebody else writes into a file of ours",
    ),
    Mutant(
        "archive-folder-written-by-others",
        "-",
        "launch/trust.py",
        "    _check(folder, 0o022)",
        "    _check(folder, 0)",
        (f"{_ARCHIVE}::test_what_others_can_write_is_refused",),
        "as above: somebody else puts a file of root's, or a link, in the place of ours",
    ),
    Mutant(
        "archive-folder-above-of-anybody",
        "-",
        "launch/trust.py",
        "            _check(above, 0o002 if found.st_gid in (ROOT, os.getegid()) else 0o022)",
        "            _check(above, 0)",
        (f"{_ARCHIVE}::test_a_folder_above_that_everybody_writes_to_is_refused_unless_it_is_sticky",),
        "as above: somebody else renames the folder, between the look at it and the JVM",
    ),
    Mutant(
        "archive-cut-short",
        "-",
        "launch/class_archive.py",
        '    return stat.S_ISREG(found.st_mode) and path.suffixes[-2:-1] == [f".{found.st_size}"]',
        "    return stat.S_ISREG(found.st_mode)",
        (f"{_ARCHIVE}::test_an_archive_that_was_cut_short_is_none",),
        "a JVM that is given a part of an archive dies of it, and so does each driver",
    ),
    Mutant(
        "archive-named-before-it-is-on-the-disk",
        "-",
        "launch/archive_making.py",
        "    sync_file(str(made))\n",
        "",
        (f"{_MAKING}::test_nothing_is_taken_for_an_archive_before_all_of_it_is_written",),
        "after a power failure a file with its name and its length holds nothing",
    ),
    Mutant(
        "archive-made-in-its-place",
        "-",
        "launch/archive_making.py",
        '        made = archive.folder / f"{stem}.{os.getpid()}.tmp"',
        '        made = archive.folder / f"{stem}.7.jsa"',
        (f"{_MAKING}::test_nothing_is_taken_for_an_archive_before_all_of_it_is_written",),
        "a driver takes what nobody has tried out, or what a killed process has left",
    ),
    Mutant(
        "archive-made-by-two",
        "-",
        "launch/archive_making.py",
        "            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "            pass",
        (f"{_MAKING}::test_the_second_of_two_does_not_wait_and_makes_nothing",),
        "each of them takes a gigabyte, and deletes what the other one is writing",
    ),
    Mutant(
        "archive-not-tried-out",
        "-",
        "launch/archive_making.py",
        "    if done.returncode:",
        "    if False:",
        (f"{_MAKING}::test_an_archive_that_the_jvm_does_not_take_is_not_kept",),
        "each driver looks at an archive of no use to it, and nobody hears of it",
    ),
    Mutant(
        "archive-over-the-users-own",
        "-",
        "launch/jvm_environ.py",
        "    if says_what_is_shared(environ, given):",
        "    if False:",
        (f"{_ARCHIVE}::test_whoever_has_switched_it_off_or_chosen_what_is_shared_keeps_that",),
        "with -Xshare:on of the user's, a JVM that does not take our archive does not start",
    ),
    Mutant(
        "whoever-has-the-number-of-a-jvm-killed",
        "R8",
        "launch/jvm_watch.py",
        """2>/dev/null | cut -d ' ' -f 20)" = "$2" ]; }""",
        """2>/dev/null | cut -d ' ' -f 20)" != "" ]; }""",
        (_WATCH,),
        "a process that has nothing to do with it is killed",
    ),
    Mutant(
        "watch-killed-with-its-driver",
        "R8",
        "launch/jvm_watch.py",
        "            start_new_session=True,\n",
        "",
        (_WATCH,),
        "the JVM of a task that Airflow ends with all of its group stays for ever",
    ),
)
