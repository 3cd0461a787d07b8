"""Row counts that a release reports."""

from __future__ import annotations

from airflow_provider_ckpt.jobmaster.release.sink_releases import ReleaseCounts


def test_counts_of_a_sink_are_used_if_its_handles_have_no_rows() -> None:
    counts = ReleaseCounts()
    assert counts.of("out", [{"id": "a"}], {"rows": 3, "files": 1}) == {"rows": 3, "files": 1}
    assert counts.of("out", [{"id": "a"}, {"id": "b", "rows": 2}], {"rows": 2}) == {"rows": 2}
    assert counts.of("out", [{"id": "c", "rows": 4}], {"rows": 4}) == {"rows": 4}
