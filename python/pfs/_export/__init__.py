"""Gives tables to other tools: Prometheus, OpenTelemetry, clients of MySQL, matplotlib."""
