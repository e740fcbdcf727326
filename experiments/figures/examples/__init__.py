"""The figures of the worked examples, each with the name of its example; it reads the steps of that example."""
