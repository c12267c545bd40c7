"""Makes OTLP spans and metrics of the tables of processes, and sends them. Only its modules need the extra `otel`."""

DEFAULT_MIN_WAIT = 10**9  # picoseconds: shorter waits are no spans
