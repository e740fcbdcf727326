"""Published statements, a module for each source or topic; every module here is found by itself."""
