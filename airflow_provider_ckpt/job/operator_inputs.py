"""The inputs of an operator as a user writes them: operators or uids, also by name of the function's parameter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NoReturn

from airflow_provider_ckpt.job.errors import InvalidJobError
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.job.topology import Operators
from airflow_provider_ckpt.job.validation import sink_as_input

Input = Operator | str
Inputs = Input | Iterable[Input] | Mapping[str, "Input | Iterable[Input]"]
TRANSFORM_EXAMPLE = "@job.transform(inputs=[...])"
SINK_EXAMPLE = "job.sink(uid, input, sink)"


class InputReader:
    """Converter of one operator's inputs to uids. It refuses wrong inputs.

    An unknown uid is accepted, because its operator may be defined later. ``Job.validate`` checks such a uid.
    """

    def __init__(self, uid: str, location: str, operators: Operators, example: str) -> None:
        self._uid = uid
        self._location = location
        self._operators = operators
        self._example = example

    def by_parameter(self, inputs: Mapping[str, Input | Iterable[Input]]) -> dict[str, tuple[str, ...]]:
        """Return parameter name -> uids of its inputs. Refuse an operator that is an input twice."""
        uids_by_name = {str(name): self._uids_of(given) for name, given in inputs.items()}
        self._check_not_empty(uids_by_name)
        self._check_distinct(uid for uids in uids_by_name.values() for uid in uids)
        return uids_by_name

    def for_one_parameter(self, inputs: Input | Iterable[Input]) -> tuple[str, ...]:
        """Return the uids of inputs for one parameter. Refuse an operator that is an input twice."""
        uids = self._uids_of(inputs)
        self._check_distinct(uids)
        return uids

    def uid_of(self, given: Input) -> str:
        """Return the uid of a single input. Refuse a sink, an operator of another job, or a value of another type."""
        if isinstance(given, Operator):
            self._check_own(given)
            return given.uid
        if not isinstance(given, str):
            self._refuse(given)
        operator = self._operators.get(given)
        if operator is not None and operator.kind == "sink":
            raise sink_as_input(self._uid, self._location, operator)
        return given

    def _uids_of(self, given: Input | Iterable[Input]) -> tuple[str, ...]:
        uids = tuple(self.uid_of(item) for item in self._items(given))
        self._check_not_empty(uids)
        return uids

    def _items(self, given: Input | Iterable[Input]) -> Iterator[Input]:
        if isinstance(given, (Operator, str)):
            return iter((given,))
        # A set has another order in each process, and the first input decides the order of the columns.
        if isinstance(given, (Mapping, Set, bytes)) or not isinstance(given, Iterable):
            self._refuse(given)
        return iter(given)

    def _check_own(self, handle: Operator) -> None:
        if self._operators.get(handle.uid) is not handle:
            raise InvalidJobError(
                "{operator!r} ({location}): its input {input!r} ({input_location}) is an operator of another Job. "
                "An operator reads operators of its own job only: define both with the same Job object.",
                operator=self._uid,
                location=self._location,
                input=handle.uid,
                input_location=handle.location,
            )
        if handle.kind == "sink":
            raise sink_as_input(self._uid, self._location, handle)

    def _check_not_empty(self, uids: Mapping[str, object] | tuple[str, ...]) -> None:
        if not uids:
            raise self.no_input()

    def no_input(self) -> InvalidJobError:
        return InvalidJobError(
            "{operator!r} ({location}) has no input. Say what it reads: {example}.",
            operator=self._uid,
            location=self._location,
            example=self._example,
        )

    def _check_distinct(self, uids: Iterable[str]) -> None:
        seen: set[str] = set()
        for uid in uids:
            if uid in seen:
                raise InvalidJobError(
                    "{operator!r} ({location}) has {input!r} as an input twice, but a Spark query can name a source "
                    "only once. Put a transform between that returns its input unchanged, and use that as the "
                    "second input.",
                    operator=self._uid,
                    location=self._location,
                    input=uid,
                )
            seen.add(uid)

    def _refuse(self, given: object) -> NoReturn:
        # The error shows the type and not the value, because a repr may be long or contain a password.
        value = f"an object of type {type(given).__name__}"
        raise InvalidJobError(
            "{operator!r} ({location}): {value} is no input. Give operators of this job (or their uids) as "
            'inputs=[a, b], or by parameter name as inputs={{"orders": [a, b], "customers": c}}.',
            operator=self._uid,
            location=self._location,
            value=value,
        )
