"""The figures of one run as Prometheus text (format 0.0.4), for node_exporter's textfile collector.

A file holds the last run of one release, so every figure is a gauge. Labels are names of stages, rules
and gates, and the release's own name and version: nothing of a patient, a file or a path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_PREFIX = "medsanitize_"
Sample = tuple[Mapping[str, str], float]
Families = Iterable[tuple[str, str, Iterable[Sample]]]


def render(common: Mapping[str, str], families: Families) -> bytes:
    """Write families of gauges.

    Parameters
    ----------
    common : mapping
        Labels of every sample.
    families : iterable of (name, help, samples)
        Names lack the prefix ``medsanitize_``; a sample has labels of its own and a value. A family
        without samples is left out.
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
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
