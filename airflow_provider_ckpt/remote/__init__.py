"""A JobMaster and workers in processes of their own, and their messages through the storage."""
