"""Nothing leaves by itself: the switches that keep libraries from calling home.

Libraries report how they are used, look for updates, fetch files on first use, ask a cloud for credentials or
keep caches in the user's home. The package imports this module before any of them in every process: commands,
workers, the fork server, and workers of Ray and Spark. Connections are made only to what the policy or the
command line names. docs/what-leaves.md lists the libraries, what was found and the switch that turns it off.
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
    # programs that clients of stores start to ask for credentials
    "AZURE_CORE_COLLECT_TELEMETRY": "0",
    "AZURE_DEV_COLLECT_TELEMETRY": "no",
    "POWERSHELL_TELEMETRY_OPTOUT": "1",
    "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "1",
    "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "1",
}
"""Set in every process, whatever the environment says."""

DEFAULTS: Final[Mapping[str, str]] = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_GCE_CHECK": "true",
    "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential",
}
"""Set unless the environment says otherwise: in a cloud, stores may use the role of the machine."""

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
"""What the names of variables begin with that are taken out of the environment of every process."""

CACHES: Final[Mapping[str, str]] = {
    "CUDA_CACHE_PATH": "cuda",
    "FSSPEC_CONFIG_DIR": "fsspec",
    "MPLCONFIGDIR": "matplotlib",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_HOME": "torch",
    "TRITON_CACHE_DIR": "triton",
}
"""Variables that name a library's cache, and its folder among a command's temporary files."""

PREFIX: Final = "ms-"
"""What the name of a command's temporary folder begins with; sockets are in it, whose paths must be short."""

_PLACES: Final = ("/tmp", "/var/tmp")  # noqa: S108  a folder of mode 0700 with a random name is made there
_NOWHERE: Final = Path("/nonexistent")


def keep_offline(environment: MutableMapping[str, str] = os.environ) -> None:
    """Turn off in an environment, by default this process's, all that libraries would do by themselves."""
    for name in [name for name in environment if name.startswith(REMOVED) and name not in CACHES]:
        del environment[name]
    environment.update(SWITCHES)
    for name, value in DEFAULTS.items():
        environment.setdefault(name, value)


def use_temporary_folder() -> Path | None:
    """Keep the temporary files and caches of this program, and of what it starts, in one folder.

    The folder has mode 0700 and goes when the program ends. Files in it have no name or hold nothing of a
    patient, so what a killed program leaves behind identifies nobody. Where no folder can be made there is
    none: what needs one then fails, and nothing is written elsewhere in its place.
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
    """A new folder in the first place that takes one."""
    for place in places:
        path = Path(place).absolute() / f"{PREFIX}{os.urandom(4).hex()}"
        with suppress(OSError):
            path.mkdir(mode=0o700)
            return path
    return None
