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
    rows = [(_flag(one), *_values(one), one.help) for one in OPTIONS if one.flag]
    return table(("option", "values", "default", "meaning"), rows)


def arguments() -> str:
    """Return the table of the arguments of the Airflow operator."""
    rows = [
        (
            f"`{one.argument}`",
            one.kind.allowed,
            one.unset_argument or _default(one),
            "yes" if one.templated else "no",
            one.help,
        )
        for one in OPTIONS
        if one.argument
    ]
    return table(("argument", "values", "default", "templated", "meaning"), rows)


def of_a_run() -> str:
    """Return the table of options that may change between two runs, a single row for all with the same effect."""
    free = [one for one in OPTIONS if not (one.fixed or one.is_identity or one.kind in (kinds.CONF, kinds.PARAMS))]
    names = ", ".join(f"`{one.name}`" for one in free)
    fixed = ", ".join(f"`{one.name}`" for one in OPTIONS if one.fixed)
    identity = ", ".join(f"`{one.name}`" for one in OPTIONS if one.is_identity)
    rows = [
        (names, "allowed", "From the next run on"),
        (fixed, "refused", "; ".join(str(one.fixed) for one in OPTIONS if one.fixed)),
        (identity, "another job", "It has nothing of the first job, and leaves that as it is"),
    ]
    return table(("option", "what happens", "why, or how"), rows)


def _flag(one: Option) -> str:
    """Return the flag with its placeholder, if its value is a pair, or with its negation."""
    pairs = one.kind in (kinds.CONF, kinds.PARAMS)
    if one.kind is kinds.FLAG and one.default:
        return f"`{one.flag}`, `--no-{str(one.flag)[2:]}`"
    return f"`{one.flag} {one.kind.placeholder}`" if pairs else f"`{one.flag}`"


def _values(one: Option) -> tuple[str, str]:
    """Return the values of a flag and its default. Both are empty for a flag without a value."""
    if one.kind is kinds.FLAG:
        return "", _default(one) if one.default else ""
    return one.kind.allowed, one.unset or _default(one)


def _default(one: Option) -> str:
    return f"`{one.shown_default}`" if one.shown_default else ""


def flink_keys() -> str:
    """Return the table of the options that have a Flink key."""
    rows = [(f"`{key}`", f"`{one.name}`", _default(one), one.help) for key, one in KEYS.items()]
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
