"""The sink that writes to an Iceberg table."""
