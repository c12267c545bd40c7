"""Offers the tables of processes as metrics, for Prometheus, OpenMetrics and the like. It reads from outside.

    import pfs.metrics
    print(pfs.metrics.text(4711))
    prometheus_client.REGISTRY.register(pfs.metrics.Collector())

The command ``pfs metrics`` does the same without a program.
"""

from pfs._export.metrics.api import Collector, exporter, text

__all__ = ["Collector", "exporter", "text"]
