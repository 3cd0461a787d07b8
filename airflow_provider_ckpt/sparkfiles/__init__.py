"""The files of Spark's checkpoint folders, read and written without Spark."""
