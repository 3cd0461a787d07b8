"""Gates to use as they are."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TESTS = ("tests/gates",)
GATES = (
    Mutant(
        "a-token-goes-where-it-is-sent",
        "R9",
        "gates/airflow_api.py",
        "        self._opener = urllib.request.build_opener(_NoRedirect())",
        "        self._opener = urllib.request.build_opener()",
        _TESTS,
        "whoever answers for the API server gets its token, and says what is released",
    ),
    Mutant(
        "any-text-opens-the-gate",
        "R9",
        "gates/airflow_variable_gate.py",
        "            raise VariableNoAnswerError(key=key)",
        "            return True",
        _TESTS,
        'a Variable that says "no" releases what it was to hold',
    ),
    Mutant(
        "no-answer-is-no-variable",
        "R9",
        "gates/airflow_api.py",
        '        if code == _NOT_FOUND and "Variable" in str(answer.get("detail")):',
        "        if code >= 400:",
        _TESTS,
        "a server that fails holds a release without a word",
    ),
)
