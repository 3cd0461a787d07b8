"""Sources of files: their readers, their frozen ends, and files that Spark would misread."""
