"""Rows that would be a blank line of CSV. Spark's reader leaves blank lines out, so such rows would be lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BLANK_LINE = "CKPT_CSV_BLANK_LINE"
"""The error text that such a row fails with."""
_BLANKS = "".join(map(chr, range(33)))
"""The characters that Spark, like Java, takes for white space."""


def is_blank(text: str) -> bool:
    return not text.strip(_BLANKS)


@dataclass(frozen=True)
class BlankLines:
    """The rule by which a row of a CSV file is a blank line.

    It holds for files with one column, or with a separator that is blank itself (a tab).

    Args:
        columns: name -> whether the column is a text.
        null: the text written for a null is blank.
        empty: the text written for an empty text is blank. If the writer trims, a text of blanks counts as empty.
        blanks: a text of blanks is written as it is.
        quoted: characters that make the writer quote a text, besides line ends.
    """

    columns: Mapping[str, bool]
    null: bool
    empty: bool
    blanks: bool
    quoted: str

    @property
    def exist(self) -> bool:
        return all(any(True for _ in self._of("", is_text)) for is_text in self.columns.values())

    def refused(self, frame: DataFrame) -> DataFrame:
        """Return the frame with a check that fails the query at the first row that would be a blank line."""
        quoted = {name: "`" + name.replace("`", "``") + "`" for name in frame.columns}
        blank = (" OR ".join(self._of(quoted[name], is_text)) for name, is_text in self.columns.items())
        wrong = " AND ".join(f"({one})" for one in blank)
        first = next(iter(self.columns))
        kept = f"CASE WHEN {wrong} THEN raise_error('{BLANK_LINE}') ELSE {quoted[first]} END AS {quoted[first]}"
        return frame.selectExpr(*(kept if name == first else quoted[name] for name in frame.columns))

    def _of(self, column: str, is_text: bool) -> Iterator[str]:
        """Yield SQL conditions under which the column writes only blanks to its line."""
        if self.null:
            yield f"{column} IS NULL"
        if not is_text:
            return
        text, blank = f"CAST({column} AS STRING)", r"'^[\\x00-\\x20]*$'"
        if self.empty:
            yield f"{text} = ''" if self.blanks else f"{text} RLIKE {blank}"
        if self.blanks:  # a text with a line end or a separator is quoted
            line = _literal(f"[\r\n{self.quoted}]")
            yield f"{text} <> '' AND {text} RLIKE {blank} AND NOT {text} RLIKE {line}"


def _literal(text: str) -> str:
    """Return an SQL literal with its white space escaped."""
    return "'" + "".join(rf"\u{ord(one):04x}" if one in _BLANKS else one for one in text) + "'"
