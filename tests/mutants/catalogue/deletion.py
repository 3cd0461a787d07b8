"""Deleting a job that is over (R3, R5, R16)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_INTERRUPTED = ("tests/client/test_delete_interrupted.py",)
_DELETE = ("tests/client/test_delete.py",)

DELETION = (
    Mutant(
        "deleted-before-it-is-said",
        "R16",
        "jobmaster/deletion.py",
        "        if journal.state.deletion is None:\n",
        "        files = [size for part in self._parts() for size in self._delete_part(part)]\n"
        "        if journal.state.deletion is None:\n",
        _INTERRUPTED,
        "a deletion dies, and a driver goes on with a job of which half is gone",
    ),
    Mutant(
        "deleted-before-all-is-gone",
        "R16",
        "jobmaster/deletion.py",
        "        staged = self._delete_staged(journal.state)\n",
        "        journal.write(JobDeleted(time.time()))\n        staged = self._delete_staged(journal.state)\n",
        _INTERRUPTED,
        "a deletion dies, and what is staged is known to nobody any more",
    ),
    Mutant(
        "deletion-claims-as-a-run",
        "R16",
        "jobmaster/deletion.py",
        "time.time(), self._admit, releases_only=True)",
        "time.time(), self._admit)",
        _INTERRUPTED,
        "a deletion dies, and the job is taken for one that runs: of a job that FINISHED the next run does it again",
    ),
    Mutant(
        "deleted-job-taken",
        "R16",
        "spark/decision.py",
        "    state.refuse_deleted()\n",
        "",
        _INTERRUPTED,
        "a retry begins a deleted job anew, and releases all its rows once more",
    ),
    Mutant(
        "deletion-not-asked-at-the-claim",
        "R16",
        "jobmaster/deletion.py",
        "time.time(), self._admit, releases_only=True)",
        "time.time(), releases_only=True)",
        _INTERRUPTED,
        "a driver takes the job between the look and the claim, and its files are deleted while it runs",
    ),
    Mutant(
        "deleted-with-unreleased-output",
        "R16",
        "jobmaster/deletion_terms.py",
        "        if state.has_unreleased and not self.discard_unreleased:",
        "        if False:",
        _DELETE,
        "what a lost driver has completed is lost, and nobody was told",
    ),
    Mutant(
        "deleted-under-a-driver",
        "R8",
        "jobmaster/deletion_terms.py",
        "        if alive:  #",
        "        if alive and state.is_held and not self.abandoned:  #",
        _DELETE,
        "a driver that runs loses its files",
    ),
    Mutant(
        "staged-of-another-root-deleted",
        "R5",
        "jobmaster/deletion.py",
        "len(sink.collect_garbage((), others))",
        "len(sink.collect_garbage((), ()))",
        _DELETE,
        "a job of the same id under another root loses what it is about to release",
    ),
    Mutant(
        "staged-of-another-root-collected",
        "R5",
        "jobmaster/collector.py",
        "_collect_staged(sinks[uid], handles, others)",
        "_collect_staged(sinks[uid], handles, living)",
        ("tests/spark/test_collector.py",),
        "a driver deletes what a job of the same id under another root is about to release",
    ),
    Mutant(
        "staged-of-another-root-cleaned-up",
        "R5",
        "jobmaster/collector.py",
        "sinks[uid].collect_garbage(set(), others)",
        "sinks[uid].collect_garbage(set(), ())",
        ("tests/spark/test_collector.py",),
        "a job that FINISHED deletes what one of the same id under another root has checkpointed",
    ),
    Mutant(
        "deleted-job-released",
        "R16",
        "jobmaster/roll_forward.py",
        "        state.refuse_deleted()\n",
        "",
        _DELETE,
        "a release finds nothing to release, and says that all is well",
    ),
    Mutant(
        "claims-of-a-deleted-job-forgotten",
        "R3",
        "jobmaster/deletion.py",
        "        journal.compact(time.time())\n",
        '        self._storage.delete_tree(f"{self._home}/journal")\n',
        _DELETE,
        "a driver that slept takes itself for the owner of a job that is gone",
    ),
)
