"""The messages, commands and effects that the coordinator, the JobMaster and subtasks exchange."""
