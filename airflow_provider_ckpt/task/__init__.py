"""The next action of a task, its log and its inputs, without Spark."""
