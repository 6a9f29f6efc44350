"""What this process may use of the machine."""

from __future__ import annotations

import os
from pathlib import Path


def usable_cores() -> int:
    """Return the number of cores that this process may use.

    Schedulers restrict a job to some cores by its affinity, which macOS does not have, and containers by a
    quota (cgroup v2).
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _cgroup_limit("cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        cores = min(cores, max(1, int(quota) // int(period)))
    return cores


def machine_memory() -> int:
    """Return the memory of the machine in bytes, or that of the container."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _cgroup_limit("memory.max")
    return min(memory, int(limit)) if limit.isdigit() else memory


def _cgroup_limit(name: str) -> str:
    """Return the text of a limit of cgroup v2, or nothing where there is none."""
    try:
        return Path("/sys/fs/cgroup", name).read_text(encoding="ascii").strip()
    except OSError:
        return ""
