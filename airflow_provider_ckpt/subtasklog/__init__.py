"""The log of a subtask: its writer, its readers, and the gate of a consumer's barriers."""
