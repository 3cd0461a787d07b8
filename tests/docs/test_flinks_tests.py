"""docs/partitions.md and docs/recovery.md name our counterpart of each of Flink's tests, or why there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.examples import ROOT, pages
from tests.docs.protocol import named_tests

TRACKERS = """
PartitionTableTest: testEmptyTable testStartTrackingPartition testGetTrackedPartitions
    testStartTrackingZeroPartitionDoesNotMutateState testStopTrackingAllPartitions testStopTrackingPartitions
TaskExecutorPartitionLifecycleTest: testConnectionTerminationAfterExternalRelease testPartitionReleaseAfterDisconnect
    testPartitionReleaseAfterReleaseCall testPartitionReleaseAfterShutdown
    testJobMasterConnectionTerminationAfterExternalRelease testJobMasterConnectionTerminationAfterExternalPromotion
    testPartitionReleaseAfterJobMasterDisconnect testPartitionPromotion testClusterPartitionRelease
    testBlockingLocalPartitionReleaseDoesNotBlockTaskExecutor testEnableBatchJobRecoveryAndRetainPartitions
    testEnableBatchJobRecoveryAndNotRetainPartitions testDisableBatchJobRecoveryAndReleasePartitions
TaskExecutorPartitionTrackerImplTest: createClusterPartitionReport testStopTrackingAndReleaseJobPartitions
    testStopTrackingAndReleaseJobPartitionsFor testGetTrackedPartitionsFor promoteJobPartitions
    stopTrackingAndReleaseAllClusterPartitions stopTrackingAndReleaseClusterPartitions
JobMasterPartitionTrackerImplTest: testPipelinedPartitionIsNotTracked testBlockingPartitionIsTracked
    testPipelinedApproximatePartitionIsTracked testReleaseCallsWithLocalResources
    testReleaseCallsWithoutLocalResources testStopTrackingIssuesNoReleaseCalls
    testTrackingInternalAndExternalPartitionsByTmId testGetJobPartitionClusterPartition testGetShuffleDescriptors
    testGetShuffleDescriptorsBeforeConnectToResourceManager testReleaseJobPartitionPromoteClusterPartition
ExecutionPartitionLifecycleTest: testPartitionReleaseOnFinishWhileCanceling testPartitionReleaseOnCancelWhileFinished
    testPartitionReleaseOnSuspendWhileFinished testPartitionTrackedAndNotReleasedWhenFinished
    testPartitionNotTrackedAndNotReleasedWhenCanceledByTM testPartitionNotTrackedAndNotReleasedWhenFailedByTM
    testPartitionNotTrackedAndReleasedWhenCanceledByJM testPartitionNotTrackedAndReleasedWhenFailedByJM
JobMasterPartitionReleaseTest: testPartitionTableCleanupOnDisconnect testPartitionReleaseOrPromotionOnJobSuccess
    testPartitionReleaseOrPromotionOnJobFailure
RegionPartitionGroupReleaseStrategyTest: releasePartitionsIfDownstreamRegionIsFinished
JobMasterTest: testTaskExecutorNotReleasedOnFailedAllocationIfPartitionIsAllocated testGetPartitionWithMetrics
: ResourceManagerPartitionLifecycleTest ResourceManagerPartitionTrackerImplTest
"""
RECOVERY = """
BatchJobRecoveryTest: testRecoverFromJMFailover testRecoverFromJMFailoverAndPartitionsUnavailable
    testJobVertexUnFinishedAndOperatorCoordinatorNotSupportBatchSnapshot
    testJobVertexFinishedAndOperatorCoordinatorNotSupportBatchSnapshotAndPartitionNotFound
    testRecoverDecidedParallelismFromTheSameJobGraphInstance testPartitionNotFoundTwiceAfterJMFailover
    testReplayEventFailed
JMFailoverITCase: testRecoverFromJMFailover testSourceNotAllFinished testTaskExecutorNotRegisterOnTime
    testPartitionNotFoundTwice testPartitionNotFoundAndOperatorCoordinatorSupportBatchSnapshot
    testPartitionNotFoundAndOperatorCoordinatorNotSupportBatchSnapshot
"""
_TABLE = re.compile(r"<!-- flink tests -->\n(.*?)<!-- end of flink tests -->", re.DOTALL)
_OURS = re.compile(r"`((?:tests|airflow_provider_ckpt)/[\w/]+\.py)::(\w+)`")


def expected(tests: str) -> set[str]:
    return {word for word in tests.split() if not word.endswith(":")}


def rows(page: str) -> list[tuple[list[str], str]]:
    """Return (names of Flink's tests without their classes, text about our tests) of each row."""
    (table,) = _TABLE.findall(page)
    cells = [line.strip("|\n").split(" | ", 1) for line in table.splitlines()[2:]]
    return [([name.rpartition(".")[2] for name in re.findall(r"`([\w.]+)`", flink)], here) for flink, here in cells]


def unknown(page: str) -> list[str]:
    """Return the tests that the page names but that do not exist."""
    files = {
        file: set(named_tests(ROOT / file)) if (ROOT / file).is_file() else set() for file, _ in _OURS.findall(page)
    }
    return [f"{file}::{name}" for file, name in _OURS.findall(page) if name not in files[file]]


def without_reason(page: str) -> list[str]:
    """Return the rows that have neither a test of ours nor a reason."""
    return [
        " ".join(flink) for flink, here in rows(page) if not _OURS.search(here) and not here.strip().startswith("none")
    ]


@pytest.mark.parametrize(("name", "tests"), [("partitions.md", TRACKERS), ("recovery.md", RECOVERY)])
def test_each_flink_test_has_a_counterpart_or_a_reason(name: str, tests: str) -> None:
    page = (ROOT / "docs" / name).read_text("utf-8")
    assert {name for flink, _ in rows(page) for name in flink} == expected(tests)
    assert without_reason(page) == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    assert unknown(page.read_text("utf-8")) == []


def test_a_missing_test_and_a_row_without_a_reason_are_noticed() -> None:
    here = "tests/docs/test_flinks_tests.py"
    page = f"""<!-- flink tests -->
| Flink | here |
|---|---|
| `ATest.testOne`, `testTwo` | `{here}::test_every_test_that_a_page_names_exists` |
| `testThree` | perhaps |
| `testFour` | none: it cannot happen |
| `testFive` | `{here}::test_nothing`, `tests/docs/nowhere.py::test_it` |
<!-- end of flink tests -->
"""
    assert [flink for flink, _ in rows(page)] == [["testOne", "testTwo"], ["testThree"], ["testFour"], ["testFive"]]
    assert without_reason(page) == ["testThree"]
    assert unknown(page) == [f"{here}::test_nothing", "tests/docs/nowhere.py::test_it"]
