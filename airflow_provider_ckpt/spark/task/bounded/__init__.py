"""Tasks that read all of their input and then end: batch vertices and splits."""
