"""Deletion of an ended job (R3, R5, R16)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_INTERRUPTED = ("tests/client/test_delete_interrupted.py",)
_DELETE = ("tests/client/test_delete.py",)

DELETION = (
    Mutant(
        "deleted-before-the-journal-entry",
        "R16",
        "JobDeletion._delete",
        "    if journal.state.deletion is None:\n",
        "    files = [size for part in self._parts() for size in self._delete_part(part)]\n"
        "    if journal.state.deletion is None:\n",
        _INTERRUPTED,
        "a deletion dies, and a driver resumes a job of which half is gone",
    ),
    Mutant(
        "deleted-before-all-is-gone",
        "R16",
        "JobDeletion._delete.staged",
        "staged = self._delete_staged(journal.state)\n",
        "journal.write(JobDeleted(time.time()))\nstaged = self._delete_staged(journal.state)\n",
        _INTERRUPTED,
        "a deletion dies, and the staged files are no longer known",
    ),
    Mutant(
        "deletion-claims-as-a-run",
        "R16",
        "JobDeletion.run",
        "time.time(), self._admit, releases_only=True)",
        "time.time(), self._admit)",
        _INTERRUPTED,
        "a deletion dies, the job counts as running, and the next run repeats a FINISHED job",
    ),
    Mutant(
        "deleted-job-taken",
        "R16",
        "decide",
        "    state.refuse_deleted()\n",
        "",
        ("tests/client/test_delete_interrupted.py::test_r16_a_deletion_that_dies_at_any_verb_can_be_completed",),
        "a retry starts a deleted job from scratch, and releases all its rows again",
    ),
    Mutant(
        "deletion-not-checked-at-the-claim",
        "R16",
        "JobDeletion.run",
        "time.time(), self._admit, releases_only=True)",
        "time.time(), releases_only=True)",
        _INTERRUPTED,
        "a driver takes the job over between the check and the claim, and its files are deleted while it runs",
    ),
    Mutant(
        "deleted-with-unreleased-output",
        "R16",
        "DeletionTerms.check",
        "    if state.has_unreleased and not self.discard_unreleased:",
        "    if False:",
        _DELETE,
        "completed output of a lost driver is deleted without a warning",
    ),
    Mutant(
        "deleted-under-a-driver",
        "R8",
        "DeletionTerms._check_unfinished",
        "    if alive:  #",
        "    if alive and state.is_held and not self.abandoned:  #",
        _DELETE,
        "a running driver loses its files",
    ),
    Mutant(
        "staged-of-another-root-deleted",
        "R5",
        "JobDeletion._delete_staged",
        "len(sink.collect_garbage((), others))",
        "len(sink.collect_garbage((), ()))",
        _DELETE,
        "a job with the same id under another root loses staged files that it is about to release",
    ),
    Mutant(
        "staged-of-another-root-collected",
        "R5",
        "collector:collect_garbage",
        "_collect_staged(sinks[uid], handles, others)",
        "_collect_staged(sinks[uid], handles, living)",
        ("tests/spark/test_collector.py",),
        "a driver deletes staged files of a job with the same id under another root",
    ),
    Mutant(
        "staged-of-another-root-cleaned-up",
        "R5",
        "clean_up",
        "sinks[uid].collect_garbage(set(), others)",
        "sinks[uid].collect_garbage(set(), ())",
        ("tests/spark/test_collector.py",),
        "a FINISHED job deletes checkpointed files of a job with the same id under another root",
    ),
    Mutant(
        "deleted-job-released",
        "R16",
        "RollForward._admit",
        "    state.refuse_deleted()\n",
        "",
        _DELETE,
        "the release of a deleted job finds nothing to release and reports success",
    ),
    Mutant(
        "claims-of-a-deleted-job-forgotten",
        "R3",
        "JobDeletion._delete",
        "    journal.compact(time.time())\n",
        '    self._storage.delete_tree(f"{self._home}/journal")\n',
        _DELETE,
        "a driver that was paused takes itself for the owner of a deleted job",
    ),
)
