"""Ready-made gates. A gate can hold the releases of a sink."""
