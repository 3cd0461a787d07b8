"""The declaration of one option of a run.

The declaration determines the flags of ``ckpt run``, the templated fields and early checks of the Airflow operator,
the driver's JSON, the tables in ``docs/``, and the options that may change between two runs.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, replace
from typing import Any, Literal

from airflow_provider_ckpt.job.options.kinds import Kind

Ending = Literal["stop", "drain"]


@dataclass(frozen=True)
class Option:
    """Declaration of one option of a run."""

    name: str
    """Name of the option's field in :class:`~.run_options.RunOptions`."""
    kind: Kind
    help: str
    """Description in one sentence, for all outputs."""
    default: Any = None
    """The default, in the form that :meth:`read` returns. None if there is no default, see :attr:`unset`."""
    required: bool = False
    flag: str | None = None
    """Flag of ``ckpt run``. None if the option has no flag, or is a positional argument like the job."""
    argument: str | None = None
    """Argument of the Airflow operator. None if the operator has no such argument."""
    ends: Ending | None = None
    """"stop" or "drain" if the option ends the run at a time or after a duration. A run can have one such option."""
    unset: str = ""
    """Description of the value that ``ckpt run`` uses if the option is not given and has no default."""
    unset_argument: str = ""
    """Description of the value that Airflow uses if the argument is not given (or None) and has no default."""
    is_identity: bool = False
    """True if a run with another value is a run of another job."""
    fixed: str | None = None
    """Why the option cannot change between two runs of one job. None if it can change."""
    flink: tuple[str, ...] = ()
    """Flink's keys of the option, the current one first. See :mod:`.flink_options`."""

    @property
    def templated(self) -> bool:
        """True if the argument of the Airflow operator is a template. Its value must then be readable from text."""
        return self.argument is not None and self.kind.is_text

    @property
    def shown_default(self) -> str:
        """The default as a user would write it. Empty if there is no default."""
        return "" if self.default is None else self.kind.shown(self.default)

    def read(self, value: object, name: str | None = None) -> Any:
        """Return a user's value in the form that :class:`~.run_options.RunOptions` has (seconds, bytes, a time in UTC).

        None stays None if the option is not required and has no default. ``name`` is the name under which the user gave
        the value, by default the field's. Raises a subclass of InvalidInputError for a bad value.
        """
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
    """Return the metadata of a dataclass field that is an option.

    An empty ``flag`` or ``argument`` means the field's name.
    """
    option = Option("", kind, help, None, False, flag, argument, ends, unset, unset_argument, is_identity, fixed, flink)
    return {"option": option}


def declared(field: Field[Any]) -> Option:
    """Return the option of a dataclass field with metadata of :func:`about`."""
    option: Option = field.metadata["option"]
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return replace(
        option,
        name=field.name,
        default=None if default is MISSING else default,
        required=default is MISSING,
        flag="--" + field.name.replace("_", "-") if option.flag == "" else option.flag,
        argument=option.argument if option.argument != "" else field.name,
    )
