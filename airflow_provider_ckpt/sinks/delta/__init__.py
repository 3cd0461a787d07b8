"""The sink that writes to a Delta table."""
