"""Steps of the commands about sweeps: options, measuring, and the check."""
