"""Audits of an attention function from the command line, and functions to try it on."""
