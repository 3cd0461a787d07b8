"""The parts of the coordinator's state: subtasks, pauses, releases, splits and changes in progress."""
