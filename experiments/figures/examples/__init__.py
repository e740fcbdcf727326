"""The figures of the worked examples; each has the name of its example and reads its steps."""
