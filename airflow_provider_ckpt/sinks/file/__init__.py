"""The sink that writes files into a folder, and its manifests of released files."""
