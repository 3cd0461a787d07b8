"""The loading of a job from its Python file, and the comparison of its code between runs."""
