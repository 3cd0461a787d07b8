"""Exit codes, status lines and their texts, for writers and readers."""
