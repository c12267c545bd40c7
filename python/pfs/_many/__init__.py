"""Reads many processes at once: the hosts of a fleet, the workers of Dask."""
