"""The sink that writes to tables of MySQL, MariaDB or SQLite."""
