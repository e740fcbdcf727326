"""The machinery that runs a sweep: config, grid and seeds are pure; run and tables deal with processes and files."""
