"""Pictures of values that no sweep measures: of theory, and of sums in half precision."""
