"""The append log: numbered entries that are created once, and their packs."""
