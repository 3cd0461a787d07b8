"""How a job runs."""

from __future__ import annotations

from typing import Literal

RuntimeMode = Literal["streaming", "batch"]
