"""The state of the coordinator: subtasks, pauses, releases, splits and changes in progress."""
