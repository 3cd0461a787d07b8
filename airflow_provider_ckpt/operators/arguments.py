"""Arguments of the Airflow operator that are options of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.hooks.rendered import is_rendered_later
from airflow_provider_ckpt.job.loading.loading import parts_of
from airflow_provider_ckpt.job.options.flink_options import flink_values
from airflow_provider_ckpt.job.options.run_options import OPTIONS, Duration, check_ending
from airflow_provider_ckpt.remote.timing import LOCAL_POLL, Timing

ARGUMENTS = {str(option.argument): option for option in OPTIONS if option.argument}
"""Name of an argument -> option of a run."""
TEMPLATED = tuple(name for name, option in ARGUMENTS.items() if option.templated)
WITH_FALLBACK = tuple(name for name, option in ARGUMENTS.items() if option.templated and option.unset_argument)
"""Templated arguments for which None selects a fallback, such as the connection's root or a default job id."""


def check_arguments(given: Mapping[str, Any]) -> None:
    """Refuse arguments that no run can accept, while Airflow parses the Dag. Templates and XComs are not checked.

    Raises a subclass of InvalidInputError for the first bad value.
    """
    values = {name: value for name, value in given.items() if _is_given(name, value) and not is_rendered_later(value)}
    for name, value in values.items():
        ARGUMENTS[name].read(value, name)
    if "job" in values:
        parts_of(values["job"])  # checks the form only, because the file is on the worker
    check_ending([name for name, value in values.items() if ARGUMENTS[name].ends and value is not None])


def _is_given(name: str, value: object) -> bool:
    """Return False if ``value`` is None and the argument has a fallback for None. Otherwise return True."""
    return value is not None or not ARGUMENTS[name].unset_argument


def option_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments of RunOptions for rendered arguments, without each None that has a fallback."""
    return {ARGUMENTS[name].name: value for name, value in given.items() if _is_given(name, value)}


def check_flink_options(options: Mapping[str, Any] | None, given: Mapping[str, Any]) -> None:
    """Refuse a bad ``options`` argument, while Airflow parses the Dag. None and templates pass.

    Raises BadOptionError for an unknown key, for a bad value, and for an option that ``given`` sets to another value.
    """
    if options is not None and not is_rendered_later(options):
        flink_values(options, {} if is_rendered_later(given) else option_values(given))


def check_timing(given: Mapping[str, Duration | None]) -> None:
    """Refuse a poll interval or timeout that no group can use, while Airflow parses the Dag.

    The check assumes a local root, because the root and its default poll are known at run time only.

    Raises InvalidInputError if a value is no duration, or too short for the processes of the group.
    """
    Timing(LOCAL_POLL).with_overrides(given)


def param_lines() -> str:
    """Return a ``:param`` line for each argument, for the operator's docstring."""
    lines = []
    for name, option in ARGUMENTS.items():
        fallback = option.unset_argument or option.shown_default
        default = f"; {fallback} by default" if fallback else ""
        templated = " (templated)" if option.templated else ""
        lines.append(f"    :param {name}: {option.help} ({option.kind.allowed}{default}).{templated}\n")
    return "".join(lines)
