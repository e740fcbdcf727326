"""The columns of a diagnosis, and the figure of the shipped one."""
