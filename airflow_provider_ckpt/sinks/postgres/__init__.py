"""The sink that writes to a PostgreSQL table."""
