"""Start a Dask cluster of two worker processes, print its address, and end with standard input."""

import sys

import dask
from distributed import LocalCluster

if __name__ == "__main__":
    dask.config.set({"distributed.worker.daemon": True})
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
