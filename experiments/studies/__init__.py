"""Studies of one model or one record, beside the sweeps: each folder says what it asks."""
