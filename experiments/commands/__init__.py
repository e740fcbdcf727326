"""The options that commands share, and the exit status and messages of all of them."""
