"""How fast the suite measures, beside other ways to do it and beside what a plain way cannot do without."""
