"""Checkpoints in the coordinator: their plan, trigger, acknowledgements, completion and abort."""
