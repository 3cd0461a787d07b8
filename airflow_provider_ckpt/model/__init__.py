"""Values without I/O that all folders share, and their JSON form."""
