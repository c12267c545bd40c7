"""Writes the tables of processes as metrics for Prometheus and the like. It needs neither pandas nor a library of metrics."""

DEFAULT_TOP = 250  # digests, tables and indexes, as mysqld_exporter
