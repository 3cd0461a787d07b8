"""What is declared about one option of a run: everything else that says it follows from here.

Of it are made the flags of ``ckpt run``, the templated fields and early checks of the Airflow operator, the JSON that
the driver is given, the tables in ``docs/``, and which options may change between two runs.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, replace
from typing import Any, Literal

from airflow_provider_ckpt.job.kinds import Kind

Ending = Literal["stop", "drain"]


@dataclass(frozen=True)
class Option:
    name: str
    """Of the field of :class:`~.options.RunOptions`."""
    kind: Kind
    help: str
    """In a sentence, for every surface."""
    default: Any = None
    """As it is kept. None: there is none, see :attr:`unset`."""
    required: bool = False
    flag: str | None = None
    """Of ``ckpt run``. None: it cannot be given there (or is no flag, as the job)."""
    argument: str | None = None
    """Of the Airflow operator. None: it cannot be given there."""
    ends: Ending | None = None
    """How it ends the run, at a time or after a duration. At most one that does may be given."""
    unset: str = ""
    """What holds in ``ckpt run`` when it is not given, where that is no value of its own."""
    unset_argument: str = ""
    """The same in Airflow. An argument that says so takes None for not given."""
    is_identity: bool = False
    """With another value it is another job."""
    fixed: str | None = None
    """Why it cannot change between two runs of one job. None: it can."""
    flink: tuple[str, ...] = ()
    """Keys under which Flink has it, the current one first; see :mod:`.flink_options`."""

    @property
    def templated(self) -> bool:
        """What a template renders is a text, so what cannot be read from one is not templated."""
        return self.argument is not None and self.kind.is_text

    @property
    def shown_default(self) -> str:
        """As it would be given; empty if there is none."""
        return "" if self.default is None else self.kind.shown(self.default)

    def read(self, value: object, name: str | None = None) -> Any:
        """The value that is kept. ``name``: what the option is called where it was given. Raises InvalidInputError
        subclasses."""
        if value is None and self.default is None and not self.required:
            return None
        return self.kind.read(value, name or self.name)

    def to_json(self, value: Any) -> Any:
        return None if value is None else self.kind.to_json(value)


def about(
    kind: Kind,
    help: str,  # noqa: A002
    *,
    flag: str | None = "",
    argument: str | None = "",
    ends: Ending | None = None,
    unset: str = "",
    unset_argument: str = "",
    is_identity: bool = False,
    fixed: str | None = None,
    flink: tuple[str, ...] = (),
) -> dict[str, Option]:
    """The metadata of a field that is an option. ``flag``, ``argument``: empty where they are called like the field."""
    option = Option("", kind, help, None, False, flag, argument, ends, unset, unset_argument, is_identity, fixed, flink)
    return {"option": option}


def declared(one: Field[Any]) -> Option:
    """The option of a field whose metadata :func:`about` has made."""
    option: Option = one.metadata["option"]
    default = one.default if one.default_factory is MISSING else one.default_factory()
    return replace(
        option,
        name=one.name,
        default=None if default is MISSING else default,
        required=default is MISSING,
        flag="--" + one.name.replace("_", "-") if option.flag == "" else option.flag,
        argument=option.argument if option.argument != "" else one.name,
    )
