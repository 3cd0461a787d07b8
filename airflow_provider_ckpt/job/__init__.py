"""The user's definition of a job: its operators, its checks and the chaining into a job graph."""
