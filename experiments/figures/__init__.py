"""Tables to drawings: every module here that binds FIGURE is a figure; the other modules hold code that they share."""
