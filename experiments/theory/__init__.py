"""Tables and figures of laws that docs/theory.md explains; nothing in them is measured."""
