"""The steps behind the commands: each reads the files of the previous step and writes its own.

A step imports its dependencies when it runs, so that other commands start without them.
"""
