"""A Dask cluster as workers; needs the optional packages of `requirements-cluster.lock`."""
