"""Row counts that a release reports."""

from __future__ import annotations

from airflow_provider_ckpt.jobmaster.release.sink_releases import ReleaseCounts


def test_of_a_sink_whose_handles_do_not_say_how_many_rows_they_are_of_its_own_counts_are_told() -> None:
    counts = ReleaseCounts()
    assert counts.of("out", [{"id": "a"}], {"rows": 3, "files": 1}) == {"rows": 3, "files": 1}
    assert counts.of("out", [{"id": "a"}, {"id": "b", "rows": 2}], {"rows": 2}) == {"rows": 2}
    assert counts.of("out", [{"id": "c", "rows": 4}], {"rows": 4}) == {"rows": 4}
