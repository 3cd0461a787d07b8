"""The interface of storages, its implementations, and the paths below a root."""
