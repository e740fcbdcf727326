"""Published statements with their verdicts."""
