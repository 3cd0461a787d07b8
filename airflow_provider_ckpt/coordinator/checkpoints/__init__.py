"""Checkpoints in the coordinator: when they are triggered, how they complete, and which may fail."""
