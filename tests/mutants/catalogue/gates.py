"""Ready-made gates."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TESTS = ("tests/gates",)
GATES = (
    Mutant(
        "token-follows-redirects",
        "R9",
        "AirflowApi.__init__",
        "    self._opener = urllib.request.build_opener(_NoRedirect())",
        "    self._opener = urllib.request.build_opener()",
        _TESTS,
        "a server that answers in place of the API server gets the token, and decides what is released",
    ),
    Mutant(
        "any-text-opens-the-gate",
        "R9",
        "AirflowVariableGate.__call__",
        "    if value.strip().lower() not in _ANSWERS:",
        "    if value.strip().lower() not in _ANSWERS:\n        return True\n    if False:",
        _TESTS,
        'the gate releases output although its Variable says "no"',
    ),
    Mutant(
        "no-answer-is-no-variable",
        "R9",
        "AirflowApi.variable",
        '    if code == _NOT_FOUND and "Variable" in str(answer.get("detail")):',
        "    if code >= 400:",
        _TESTS,
        "a failing server silently holds a release",
    ),
)
