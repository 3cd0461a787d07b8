"""File sources: readers for their functions, their frozen ends, and checks for files that Spark would misread."""
