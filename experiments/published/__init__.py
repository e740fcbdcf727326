"""Published statements with their verdicts, and the worked examples."""
