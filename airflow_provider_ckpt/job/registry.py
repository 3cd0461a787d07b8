"""The operators of one job by uid, in order of definition."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from airflow_provider_ckpt.job.errors import InvalidJobError
from airflow_provider_ckpt.job.operators import LONGEST_UID, UID, Kind, Operator


class OperatorRegistry:
    """Registry of operators. Uids must differ in more than case, because they become names of folders."""

    def __init__(self) -> None:
        self._operators: dict[str, Operator] = {}
        self._uids: dict[str, str] = {}
        self.view: Mapping[str, Operator] = MappingProxyType(self._operators)
        """Uid -> operator. A read-only view that grows with the job."""

    def check_uid(self, uid: str, location: str) -> None:
        """Refuse a bad uid.

        Raises:
            InvalidJobError: it cannot name an operator, or another operator has it.
        """
        if not isinstance(uid, str) or UID.fullmatch(uid) is None:
            raise InvalidJobError(
                "operator uid {uid!r} ({location}) is not usable: it must be 1 to {longest} letters (A-Z, a-z), "
                "digits or underscores, because it names a Spark source and a folder. Give the operator one with "
                'uid="...".',
                uid=uid,
                location=location,
                longest=LONGEST_UID,
            )
        taken = self._operators.get(self._uids.get(uid.casefold(), ""))
        if taken is not None:
            raise InvalidJobError(
                "uid {uid!r} ({location}) is taken by the {other_kind} {other!r} ({other_location}). Uids of "
                "sources, transforms and sinks of a job must differ in more than case: give one of the two another "
                "uid.",
                uid=uid,
                location=location,
                other=taken.uid,
                other_kind=taken.kind,
                other_location=taken.location,
            )

    def add(self, operator: Operator) -> Operator:
        self._uids[operator.uid.casefold()] = operator.uid
        self._operators[operator.uid] = operator
        return operator

    def of_kind(self, kind: Kind) -> tuple[Operator, ...]:
        return tuple(operator for operator in self._operators.values() if operator.kind == kind)
