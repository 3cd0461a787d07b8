"""Tables of options in ``docs/``, generated from their declaration: ``python -m tests.docs.options`` writes them.

A table stands between ``<!-- options: <name> -->`` and ``<!-- end of options -->``.
"""

from __future__ import annotations

from airflow_provider_ckpt.job.options import kinds
from airflow_provider_ckpt.job.options.flink_options import KEYS
from airflow_provider_ckpt.job.options.option import Option
from airflow_provider_ckpt.job.options.run_options import OPTIONS
from tests.docs.generated_tables import GeneratedTables, table


def flags() -> str:
    """Return the table of the flags of ``ckpt run``."""
    rows = [(_flag(option), *_values(option), option.help) for option in OPTIONS if option.flag]
    return table(("option", "values", "default", "meaning"), rows)


def arguments() -> str:
    """Return the table of the arguments of the Airflow operator."""
    rows = [
        (
            f"`{option.argument}`",
            option.kind.allowed,
            option.unset_argument or _default(option),
            "yes" if option.templated else "no",
            option.help,
        )
        for option in OPTIONS
        if option.argument
    ]
    return table(("argument", "values", "default", "templated", "meaning"), rows)


def of_a_run() -> str:
    """Return the table of options that may change between two runs, a single row for all with the same effect."""
    free = [
        option
        for option in OPTIONS
        if not (option.fixed or option.is_identity or option.kind in (kinds.CONF, kinds.PARAMS))
    ]
    names = ", ".join(f"`{option.name}`" for option in free)
    fixed = ", ".join(f"`{option.name}`" for option in OPTIONS if option.fixed)
    identity = ", ".join(f"`{option.name}`" for option in OPTIONS if option.is_identity)
    rows = [
        (names, "allowed", "From the next run on"),
        (fixed, "refused", "; ".join(str(option.fixed) for option in OPTIONS if option.fixed)),
        (identity, "another job", "It has nothing of the first job, and leaves that as it is"),
    ]
    return table(("option", "what happens", "why, or how"), rows)


def _flag(option: Option) -> str:
    """Return the flag with its placeholder, if its value is a pair, or with its negation."""
    pairs = option.kind in (kinds.CONF, kinds.PARAMS)
    if option.kind is kinds.FLAG and option.default:
        return f"`{option.flag}`, `--no-{str(option.flag)[2:]}`"
    return f"`{option.flag} {option.kind.placeholder}`" if pairs else f"`{option.flag}`"


def _values(option: Option) -> tuple[str, str]:
    """Return the values of a flag and its default. Both are empty for a flag without a value."""
    if option.kind is kinds.FLAG:
        return "", _default(option) if option.default else ""
    return option.kind.allowed, option.unset or _default(option)


def _default(option: Option) -> str:
    return f"`{option.shown_default}`" if option.shown_default else ""


def flink_keys() -> str:
    """Return the table of the options that have a Flink key."""
    rows = [(f"`{key}`", f"`{option.name}`", _default(option), option.help) for key, option in KEYS.items()]
    return table(("key", "field of RunOptions", "default", "meaning"), rows)


TABLES = GeneratedTables(
    "options",
    {
        "ckpt run": flags,
        "operator": arguments,
        "between runs": of_a_run,
        "flink": flink_keys,
    },
)


if __name__ == "__main__":
    TABLES.write()
