"""A second, plain kernel for each kind of measurement, with which every run compares some of its
rows.
"""
