"""Environment variables that keep libraries from making connections by themselves.

Libraries send usage statistics, check for updates, download files on first use, ask a cloud for credentials,
and keep caches in the home folder. The package imports this module before any library in every process:
commands, workers, the fork server, and workers of Ray and Spark. Connections are made only to addresses that
the policy or the command line contains. docs/what-leaves.md lists the libraries, their behavior and the
variable that turns it off.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

SWITCHES: Final[Mapping[str, str]] = {
    # onnxruntime starts its collector when it is imported; "0" and "" would leave it on
    "ORT_DISABLE_TELEMETRY": "1",
    # a head with statistics off still reports that they are off
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9/",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "OTEL_SDK_DISABLED": "true",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    "TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS": "",
    # programs that store clients start to obtain credentials
    "AZURE_CORE_COLLECT_TELEMETRY": "0",
    "AZURE_DEV_COLLECT_TELEMETRY": "no",
    "POWERSHELL_TELEMETRY_OPTOUT": "1",
    "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "1",
    "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "1",
}
"""Always set, overriding the environment."""

DEFAULTS: Final[Mapping[str, str]] = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_GCE_CHECK": "true",
    "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential",
}
"""Set unless the environment has the variable: in a cloud, stores may use the role of the machine."""

REMOVED: Final = (
    "ACCELERATE_",
    "AWS_CSM_",  # a datagram for every call
    "AZURE_LOG_LEVEL",
    "AZURE_SDK_TRACING_IMPLEMENTATION",
    "AZURE_TRACING_ENABLED",
    "ENABLE_GCS_PYTHON_CLIENT_OTEL_TRACES",
    "FSSPEC_",  # other endpoints for our stores
    "GCSFS_DEBUG",
    "HF_DEBUG",
    "HF_ENDPOINT",
    "KINETO_",
    "MATPLOTLIBRC",
    "OPENCV_TRACE",  # files in the working folder
    "OTEL_",  # exporters of traces
    "RAY_USAGE_STATS_CONFIG_PATH",
    "SSLKEYLOGFILE",  # the keys of every TLS connection
    "TORCH_COMPILE_",
    "TORCH_LOGS",
    "TORCH_TRACE",
)
"""Prefixes of variables that are removed from the environment of every process."""

CACHES: Final[Mapping[str, str]] = {
    "CUDA_CACHE_PATH": "cuda",
    "FSSPEC_CONFIG_DIR": "fsspec",
    "MPLCONFIGDIR": "matplotlib",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_HOME": "torch",
    "TRITON_CACHE_DIR": "triton",
}
"""Variables that name the cache of a library, and its subfolder of the temporary folder."""

_PLAIN: Final = ("PATH", "LANG", "TZ", "TMPDIR", "TESSDATA_PREFIX")
_PLAIN_PREFIXES: Final = ("LC_", "LD_", "MALLOC_", "MKL_", "OMP_", "OPENBLAS_", "PYTHON")

PREFIX: Final = "ms-"
"""Prefix of the name of the temporary folder; short, because paths of the sockets in it are limited."""

_PLACES: Final = ("/tmp", "/var/tmp")  # noqa: S108  a folder of mode 0700 with a random name is made there
_NOWHERE: Final = Path("/nonexistent")


def keep_offline(environment: MutableMapping[str, str] = os.environ) -> None:
    """Turn off all connections that libraries make by themselves.

    Parameters
    ----------
    environment : mapping
        The environment to change; by default that of this process.
    """
    for name in [name for name in environment if name.startswith(REMOVED) and name not in CACHES]:
        del environment[name]
    environment.update(SWITCHES)
    for name, value in DEFAULTS.items():
        environment.setdefault(name, value)


def plain_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of a program that reads hostile input: it gets no key and no credential.

    Parameters
    ----------
    environment : mapping
        The environment to choose from; by default that of this process.
    """
    chosen = {
        name: value
        for name, value in environment.items()
        if name in _PLAIN or name.startswith(_PLAIN_PREFIXES)
    }
    keep_offline(chosen)
    return chosen


def use_temporary_folder() -> Path | None:
    """Keep all temporary files and caches of this process and its children in one folder.

    The folder has mode 0700 and is removed at exit. Its files have no name or contain no patient data, so a
    killed process leaves nothing that identifies a patient.

    Returns
    -------
    Path or None
        None if no folder can be created. Temporary files then cannot be created at all: nothing is written
        elsewhere instead.
    """
    import shutil
    import tempfile
    from multiprocessing.util import Finalize

    named = os.environ.get("TMPDIR")
    folder = _made_in([named] if named else _PLACES)
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder or _NOWHERE)
    for variable, name in CACHES.items():
        os.environ[variable] = str((folder or _NOWHERE) / name)
    if folder is not None:
        # after those of multiprocessing, which has its sockets in it
        Finalize(None, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=-1000)
    return folder


def _made_in(places: Sequence[str]) -> Path | None:
    """Create a folder in the first place where that is possible."""
    for place in places:
        path = Path(place).absolute() / f"{PREFIX}{os.urandom(4).hex()}"
        with suppress(OSError):
            path.mkdir(mode=0o700)
            return path
    return None
