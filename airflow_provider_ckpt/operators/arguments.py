"""Arguments of the Airflow operator that are options of a run: which are templated, and what is refused early."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.hooks.rendered import is_rendered_later
from airflow_provider_ckpt.job.flink_options import flink_values
from airflow_provider_ckpt.job.loading import parts_of
from airflow_provider_ckpt.job.options import OPTIONS, Duration, check_ending
from airflow_provider_ckpt.remote.timing import LOCAL_POLL, Timing

ARGUMENTS = {str(option.argument): option for option in OPTIONS if option.argument}
"""By the argument's name."""
TEMPLATED = tuple(name for name, option in ARGUMENTS.items() if option.templated)
HELD_OTHERWISE = tuple(name for name, option in ARGUMENTS.items() if option.templated and option.unset_argument)
"""Those instead of which something else holds when nobody gives them: another root, another job."""


def check_arguments(given: Mapping[str, Any]) -> None:
    """Refuse, while the Dag is read, what no run could take. What is known at run time only (a template, the result of
    another task) is left to it. Raises InvalidInputError subclasses."""
    known = {name: value for name, value in given.items() if _is_given(name, value) and not is_rendered_later(value)}
    for name, value in known.items():
        ARGUMENTS[name].read(value, name)
    if "job" in known:
        parts_of(known["job"])  # its form: whether there is such a file only the worker knows
    check_ending([name for name, value in known.items() if ARGUMENTS[name].ends and value is not None])


def _is_given(name: str, value: object) -> bool:
    """None is no value where something else holds then."""
    return value is not None or not ARGUMENTS[name].unset_argument


def option_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Rendered arguments as RunOptions takes them."""
    return {ARGUMENTS[name].name: value for name, value in given.items() if _is_given(name, value)}


def check_flink_options(options: Mapping[str, Any] | None, given: Mapping[str, Any]) -> None:
    """As :func:`check_arguments`, of the argument ``options``."""
    if options is not None and not is_rendered_later(options):
        flink_values(options, {} if is_rendered_later(given) else option_values(given))


def check_timing(given: Mapping[str, Duration | None]) -> None:
    """As :func:`check_arguments`, of how often the processes of a group look at each other. Where the root is, and so
    how often they do if that is not said, is known at run time."""
    Timing(LOCAL_POLL).with_chosen(given)


def described() -> str:
    """A ``:param`` line for each argument, for the docstring."""
    lines = []
    for name, option in ARGUMENTS.items():
        unset = option.unset_argument or option.shown_default
        default = f"; {unset} by default" if unset else ""
        templated = " (templated)" if option.templated else ""
        lines.append(f"    :param {name}: {option.help} ({option.kind.allowed}{default}).{templated}\n")
    return "".join(lines)
