"""A Dask cluster as workers; needs the optional packages of `requirements-cluster.lock`.

Its modules, from the run to the workers:

    dask_cluster    the workers that a run gets, and the thread that talks with the scheduler
    dispatch        hands out groups of chunks and receives their records
    waiting         the chunks that wait for a worker, and the deaths that count against a cell
    members         the workers that take part
    events          the events of a run, handled one after another
    scheduler       the connection to the scheduler
    remote          the part that runs in the workers
"""
