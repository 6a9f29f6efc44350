"""Metrics of one run in the Prometheus text format 0.0.4, for node_exporter's textfile collector.

A file describes the last run of one release, so every metric is a gauge. Labels are names of stages, rules
and gates, and the release's name and version; nothing refers to a patient, a file or a path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_PREFIX = "medsanitize_"
Sample = tuple[Mapping[str, str], float]
Families = Iterable[tuple[str, str, Iterable[Sample]]]


def render(common: Mapping[str, str], families: Families) -> bytes:
    """Render metric families as text.

    Parameters
    ----------
    common : mapping
        Labels of every sample.
    families : iterable of (name, help, samples)
        Names without the prefix ``medsanitize_``; a sample is a pair of its own labels and a value. A family
        without samples is omitted.
    """
    lines: list[str] = []
    for name, text, samples in families:
        told = [f"{_PREFIX}{name}{_labels({**common, **own})} {_number(value)}" for own, value in samples]
        if told:
            lines += [f"# HELP {_PREFIX}{name} {text}", f"# TYPE {_PREFIX}{name} gauge", *told]
    return "".join(f"{line}\n" for line in lines).encode()


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    # The escapes that the text format defines for label values.
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    # Integers without a fraction, so that files of equal runs are equal.
    return str(int(value)) if value == int(value) else repr(float(value))
