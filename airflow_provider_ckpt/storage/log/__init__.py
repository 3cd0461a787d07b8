"""Append logs: numbered entries that are created if absent, and packs of copied entries."""
