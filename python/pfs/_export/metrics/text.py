"""Writes metrics as text: OpenMetrics 1.0, or the older format of Prometheus, which node_exporter reads from files."""

from __future__ import annotations

from collections.abc import Iterable

from pfs._export.metrics.metric import Labels, Metric, open_kind
from pfs._read.show import storable, without_controls

__all__ = ["OPENMETRICS", "PLAIN", "text_of"]

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"
_OLD_KINDS = {"unknown": "untyped"}


def _escaped(text: str) -> str:
    return _escaped_lines(text).replace('"', '\\"')


def _escaped_lines(text: str) -> str:
    text = without_controls(storable(text))  # a terminal would obey control characters
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}" if labels else ""


def text_of(metrics: Iterable[Metric], openmetrics: bool = True) -> str:
    """Returns the text. Metrics without samples are left out."""
    lines = []
    for metric in metrics:
        if not metric.samples:
            continue
        if openmetrics:
            lines.append(f"# TYPE {metric.name} {open_kind(metric)}")
            if metric.unit:
                lines.append(f"# UNIT {metric.name} {metric.unit}")
            lines.append(f"# HELP {metric.name} {_escaped(metric.doc)}")
        else:
            name = metric.name + ("_total" if metric.kind == "counter" and not metric.bare else "")
            lines += [f"# HELP {name} {_escaped_lines(metric.doc)}", f"# TYPE {name} {_OLD_KINDS.get(metric.kind, metric.kind)}"]
        lines += [f"{metric.name}{suffix}{_labels(labels)} {value}" for suffix, labels, value in metric.samples]
    if openmetrics:
        lines.append("# EOF")
    return "".join(line + "\n" for line in lines)
