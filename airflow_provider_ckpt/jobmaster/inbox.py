"""The queue for all messages and reports to a JobMaster."""

from __future__ import annotations

import queue

from airflow_provider_ckpt.coordinator.messages import Message
from airflow_provider_ckpt.coordinator.reports import TaskReport

Received = Message | TaskReport
Inbox = queue.Queue[Received]
"""Any thread puts messages in. The JobMaster's loop takes them out one by one."""
