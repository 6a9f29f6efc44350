"""fsspec file systems without caches, without logging and without the libraries' own retries."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from medsanitize.pipeline.storage.retry import SILENCE

_LOGGERS: Final = (
    "adlfs",
    "aiobotocore",
    "aiohttp",
    "asyncio",
    "azure",
    "botocore",
    "fsspec",
    "gcsfs",
    "google",
    "s3fs",
    "urllib3",
)
_CONNECT_SECONDS: Final = 10


@dataclass(frozen=True, slots=True, repr=False)
class FileSystem:
    """An fsspec file system and the exceptions that its library raises."""

    fs: Any
    failures: tuple[type[BaseException], ...]

    def __repr__(self) -> str:
        return "FileSystem(...)"


@cache
def file_system(scheme: str) -> FileSystem:
    """Return the client for all stores of one scheme.

    Credentials and endpoints come from the environment. Retries are the task of ``storage.retry``, so the
    libraries' own retries are set to the minimum.
    """
    silence()
    return _OPENERS[scheme]()


def silence() -> None:
    """Turn off the libraries' logging: object names appear in it, and they can identify patients."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        # Libraries may attach handlers of their own on import (S3FS_LOGGING_LEVEL).
        logger.handlers.clear()
        logger.setLevel(logging.CRITICAL + 1)
        logger.propagate = False


def _s3() -> FileSystem:
    import aiohttp
    from botocore.exceptions import BotoCoreError, ClientError
    from s3fs import S3FileSystem

    fs = S3FileSystem(
        use_listings_cache=False,
        skip_instance_cache=True,
        max_concurrency=4,
        config_kwargs={
            "connect_timeout": _CONNECT_SECONDS,
            "read_timeout": SILENCE,
            "retries": {"total_max_attempts": 1},
        },
    )
    fs.retries = 1
    silence()  # importing the library sets up its logger again
    return FileSystem(fs, (OSError, BotoCoreError, ClientError, aiohttp.ClientError))


def _gs() -> FileSystem:
    import aiohttp
    from gcsfs.retry import HttpError
    from google.auth.exceptions import GoogleAuthError
    from medsanitize.pipeline.storage.gcs import Gcs

    # fsspec would otherwise share the instance, and its listings, within the process.
    fs = Gcs(use_listings_cache=False, skip_instance_cache=True)
    fs.retries = 1
    silence()
    return FileSystem(fs, (OSError, HttpError, GoogleAuthError, aiohttp.ClientError))


def _abfs() -> FileSystem:
    from adlfs import AzureBlobFileSystem
    from azure.core.exceptions import AzureError

    fs = AzureBlobFileSystem(
        use_listings_cache=False,
        skip_instance_cache=True,
        connection_timeout=_CONNECT_SECONDS,
        read_timeout=SILENCE,
    )
    fs.service_client._config.retry_policy.total_retries = 0  # adlfs has no option for this
    silence()
    return FileSystem(fs, (OSError, AzureError))


def _http() -> FileSystem:
    import aiohttp
    from fsspec.implementations.http import HTTPFileSystem

    class Request(aiohttp.ClientRequest):
        """A request that sends credentials from ~/.netrc only over TLS."""

        def __init__(self, method: str, url: Any, *, auth: Any = None, **more: Any) -> None:
            if url.scheme != "https":
                auth = None
                if "trust_env" in more:  # older aiohttp versions read ~/.netrc in the request itself
                    more["trust_env"] = False
            super().__init__(method, url, auth=auth, **more)

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=SILENCE)
    fs = HTTPFileSystem(
        simple_links=False,
        use_listings_cache=False,
        skip_instance_cache=True,
        client_kwargs={
            "timeout": timeout,
            "trust_env": True,
            "request_class": Request,
            "trace_configs": [_same_name_redirects()],
        },
    )
    silence()
    return FileSystem(fs, (OSError, aiohttp.ClientError))


def _same_name_redirects() -> Any:
    """Allow a redirect only from a name to the same name with a slash; others could lead anywhere.

    Any other redirect is reported as a response with its status, before the target is contacted.
    """
    import aiohttp
    from yarl import URL

    async def check_redirect(
        _session: object, _context: object, redirect: aiohttp.TraceRequestRedirectParams
    ) -> None:
        answer = redirect.response
        try:
            target = redirect.url.join(URL(answer.headers.get("Location", "")))
        except ValueError:
            target = redirect.url
        if target != redirect.url.with_path(redirect.url.raw_path + "/", encoded=True):
            answer.close()
            raise aiohttp.ClientResponseError(answer.request_info, (), status=answer.status)

    traces = aiohttp.TraceConfig()
    traces.on_request_redirect.append(check_redirect)
    return traces


_OPENERS: Final[dict[str, Callable[[], FileSystem]]] = {
    "s3": _s3,
    "gs": _gs,
    "abfs": _abfs,
    "http": _http,
    "https": _http,
}
