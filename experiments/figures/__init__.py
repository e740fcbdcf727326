"""Tables to drawings: every module here that binds FIGURE is a figure, and the others are what figures share."""
