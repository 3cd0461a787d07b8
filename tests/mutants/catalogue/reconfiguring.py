"""That queries are changed while their job runs (R21)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_COORDINATOR = ("tests/coordinator/test_reconfiguring.py", "tests/simulation")
_RULES = ("tests/coordinator/test_reconfiguring.py",)
_RUNS = ("tests/spark/test_reconfiguring.py",)

RECONFIGURING = (
    Mutant(
        "reconfigured-before-all-stand-still",
        "R21",
        "coordinator/pauses.py",
        "        if current.standing.keys() != current.told.keys():\n            return GoOn()\n",
        "",
        _RULES,
        "half of a change is decided, and another query may fail before it stands still",
    ),
    Mutant(
        "reconfigured-without-being-tried",
        "R21",
        "coordinator/reconfiguring.py",
        "        if now is None or now.is_told or not self._all_prepared(now):\n",
        "        if now is None or now.is_told:\n",
        _RULES,
        "a query that does not fit is found out when there is no way back",
    ),
    Mutant(
        "given-up-and-never-told",
        "R21",
        "coordinator/reconfigurer.py",
        "        self._lifecycle.go_on(self._parts.pauses.give_up(self._parts.reconfiguring))\n",
        "        self._parts.pauses.give_up(self._parts.reconfiguring)\n",
        _COORDINATOR,
        "a query that stood still for a change that does not come stands still for ever",
    ),
    Mutant(
        "decided-though-another-failed",
        "R21",
        "coordinator/reconfigurer.py",
        '                return f"{subtask} failed meanwhile"\n',
        "                continue\n",
        _RULES,
        "a change is made without the query that failed: half of it",
    ),
    Mutant(
        "settings-forgotten-by-the-next-driver",
        "R21",
        "jobmaster/restored_state.py",
        "        settings=state.settings,\n",
        "",
        ("tests/simulation",),
        "later attempts of the next driver run what was replaced",
    ),
    Mutant(
        "first-plan-without-settings",
        "R21",
        "jobmaster/restored_state.py",
        ", settings=state.settings.get(subtask.vertex))",
        ")",
        _RUNS,
        "the next driver's first attempts are made for another cut of the state than they are deployed with",
    ),
    Mutant(
        "cut-taken-for-a-lost-batch",
        "R21",
        "spark/task/publisher.py",
        " or self.folder.is_cut_anew(commit):",
        ":",
        _RUNS,
        "a job whose state was cut anew cannot be gone on with: it looks for what nobody has staged",
    ),
    Mutant(
        "trial-under-the-name-of-the-query",
        "R21",
        "spark/task/trials.py",
        "            copy.call(str(uuid.uuid4()))\n",
        "",
        _RUNS,
        "Spark ends the query that runs when the one that is tried starts",
    ),
    Mutant(
        "started-with-the-settings-of-another",
        "R21",
        "spark/task/session_settings.py",
        "            spark.conf.set(_SHUFFLE, str(before))\n",
        "            pass\n",
        _RUNS,
        "queries that start later cut their state as the one that was changed",
    ),
    Mutant(
        "round-of-another-given-up",
        "R21",
        "coordinator/pauses.py",
        "self._round is None or self._round.by is not by or self._round.is_decided",
        "self._round is None or self._round.is_decided",
        _RULES,
        "a source that is just dropped never is, and holds event time back for ever",
    ),
    Mutant(
        "cut-and-never-told-to-go-on",
        "R21",
        "coordinator/reconfiguring.py",
        "            return False\n        return now.moves_state(subtask) and subtask not in now.begun_anew\n",
        "            return False\n        return now.moves_state(subtask)\n",
        _RULES,
        "a query whose state was cut is told nothing when it stands still again, and does so for ever",
    ),
    Mutant(
        "late-answer-counts-for-the-next-change",
        "R21",
        "coordinator/reconfiguring.py",
        "        self._last_begun += 1\n        self.current = ReconfigurationInProgress(self._last_begun, ",
        "        self.current = ReconfigurationInProgress(self._last_begun + 1, ",
        _RULES,
        "a query is changed that nobody has tried: the answer was to another change",
    ),
    Mutant(
        "only-the-newest-plan-forgotten",
        "R21",
        "sparkfiles/spark_folder.py",
        "            if number > commit:\n                checksum.delete(self.storage, f\"{self.path}/offsets/{number}\")\n",
        "            if number > commit:\n                checksum.delete(self.storage, f\"{self.path}/offsets/{number}\")\n"
        "                return\n",
        ("tests/spark/test_folder_races.py",),
        "a trial fails, or reads what it was not to, because the query went on while it was copied",
    ),
)
