"""Where everything that a JobMaster hears comes in."""

from __future__ import annotations

import queue

from airflow_provider_ckpt.coordinator.messages import Message
from airflow_provider_ckpt.coordinator.reports import TaskReport

Received = Message | TaskReport
Inbox = queue.Queue[Received]
"""Any thread puts something in; the JobMaster's loop takes it out, one after the other."""
