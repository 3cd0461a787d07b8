"""The steps of the job ``jobs/parts.py`` in order, each with the file it writes."""

from __future__ import annotations

from tests.support.storage_steps import StorageStep


def journal(name: str, text: str) -> StorageStep:
    return StorageStep(name, r"/parts/journal/\d+\.json", f'"type": {text}')


def log(name: str, vertex: str, kind: str) -> StorageStep:
    return StorageStep(name, rf"/vertices/{vertex}/\d/log/\d+\.json", f'"type": "{kind}"')


VERTICES = ("left", "right", "clean", "both", "report")
STEPS = (
    journal("the job is claimed", '"EpochClaimed"'),
    journal("the plan is recorded", '"PlanRecorded"'),
    journal("right is frozen", '"SourceFrozen", "uid": "right"'),
    *(log(f"{vertex} has published", vertex, "Batch") for vertex in VERTICES),
    *(log(f"{vertex} is at its end", vertex, "EndOfData") for vertex in VERTICES),
    *(journal(f"the end of {vertex} is known", f'"SubtaskEndOfData", "subtask": "{vertex}/') for vertex in VERTICES),
    journal("the final checkpoint is triggered", '"CheckpointTriggered"'),
    journal("the final checkpoint is completed", '"CheckpointCompleted"'),
    StorageStep("the first sink is released", "/_ckpt-[a-z]+/parts/[a-z]+/manifests/"),
    StorageStep("the sink all is released", "/_ckpt-all/parts/all/manifests/"),
    journal("the checkpoint is released", '"CheckpointReleased"'),
    journal("the job is FINISHED", '"StatusChanged", "status": "FINISHED"'),
    StorageStep("the results of clean are deleted", "/vertices/clean/0/partition", is_deletion=True),
)
RECONCILED = journal("it is decided what runs again", '"JobReconciled"')
