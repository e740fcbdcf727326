"""Trained decoders of several sweeps of config.full.yaml side by side."""
