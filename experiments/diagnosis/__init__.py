"""The diagnosis of queries and keys in a user's files."""
