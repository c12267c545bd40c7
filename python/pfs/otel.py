"""Offers the events and counts of processes to OpenTelemetry, as OTLP's spans and metrics. It reads from outside.

    import pfs.otel
    exporter = pfs.otel.exporter(4711)
    for request in exporter.traces():       # ExportTraceServiceRequest, with the events that are new
        body = request.SerializeToString()

It needs ``pip install 'perfschema[otel]'``. The command ``pfs otel`` sends them to a receiver.
"""

from pfs._export.otel.api import Counts, Exporter, exporter

__all__ = ["Counts", "Exporter", "exporter"]
