"""The parts of tasks that need no Spark: the choice of the next action, the log and the inputs."""
