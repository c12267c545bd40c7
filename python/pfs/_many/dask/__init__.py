"""Reads the workers of a Dask cluster, also those that died. ``dask`` in this package is the library, never ``pfs.dask``."""
