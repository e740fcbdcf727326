"""Tables and captions to pages: the measured numbers of the README."""
