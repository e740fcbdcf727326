"""From sweeps to tables: chunks, workers, the store, the tables on disk, and the check of them."""
