"""The steps behind the commands: each reads files of the step before it and writes its own.

A step imports what it needs when it runs, so that the other commands start without it.
"""
