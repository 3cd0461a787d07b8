"""Ready-made gates. A gate permits or holds the releases of a sink."""
