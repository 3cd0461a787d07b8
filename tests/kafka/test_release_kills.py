"""Releaser killed with kill -9 at each step and inside the commit. Every row is in Kafka once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from airflow_provider_ckpt.sinks.sink import Handle
from tests.kafka.releasing import CONTEXT, STEPS, staged_outside
from tests.kafka.target import Topic
from tests.kafka.topics import Topics

SEED = int(os.environ.get("CKPT_KAFKA_SEED", "1"))
ROUNDS = int(os.environ.get("CKPT_KAFKA_ROUNDS", "14"))
EACH = 300


def test_r9_a_repeatedly_killed_releaser_releases_each_row_once(topics: Topics, tmp_path: Path) -> None:
    """Some releases are repeated as part of a later checkpoint. Seeded by CKPT_KAFKA_SEED and CKPT_KAFKA_ROUNDS."""
    chance = random.Random(SEED)
    target = Topic(topics, tmp_path / "staging", 3)
    target.bind(CONTEXT.job_id, CONTEXT.uid).prepare()
    plan: dict[int, list[Handle]] = {}
    batches = 0
    for checkpoint in range(1, ROUNDS + 1):
        plan[checkpoint] = []
        for _ in range(2):
            rows = range(batches * EACH, (batches + 1) * EACH)
            plan[checkpoint].append(staged_outside(topics.servers, target.name, tmp_path / "staging", batches, rows))
            batches += 1
    (tmp_path / "plan").write_text(json.dumps(plan))
    kills = []
    for number in range(ROUNDS):
        step = STEPS[number % len(STEPS)]
        when, delay = chance.choice(["before", "after"]), chance.choice([0.0, 0.001, 0.004, 0.02])
        kills.append((step, when, delay, releaser(topics, target, tmp_path, step, when, delay)))
        if number % 4 == 3:
            keep = int((tmp_path / "journal").read_text()) if (tmp_path / "journal").exists() else 0
            some = {
                checkpoint_number: handles
                for checkpoint_number, handles in plan.items()
                if checkpoint_number <= keep + 2
            }
            (tmp_path / "plan").write_text(json.dumps(some))
            assert releaser(topics, target, tmp_path, "", "", 0) == 0
            (tmp_path / "plan").write_text(json.dumps(plan))
    assert releaser(topics, target, tmp_path, "", "", 0) == 0
    assert -signal.SIGKILL in {code for _, _, _, code in kills}
    assert {code for _, _, _, code in kills} <= {0, -signal.SIGKILL}, kills
    released = sorted(int(message.value()) for message in topics.messages(target.name))
    assert released == list(range(batches * EACH)), (SEED, kills)
    assert target.staged() == []


def releaser(topics: Topics, target: Topic, home: Path, step: str, when: str, delay: float) -> int:
    command = [sys.executable, "-m", "tests.kafka.releasing", topics.servers, target.name, str(home), step, when]
    return subprocess.run([*command, str(delay)], timeout=240, stdin=subprocess.DEVNULL).returncode
