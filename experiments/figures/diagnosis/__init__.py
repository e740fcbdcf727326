"""The figures of a diagnosis of queries and keys."""
