"""How fast the suite measures, beside other ways to do it and beside the least that it could take on this machine."""
