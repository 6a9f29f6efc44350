"""Google Cloud Storage through gcsfs, with an HTTP status for every failure."""

from __future__ import annotations

from typing import Any, Final

from gcsfs.core import GCSFileSystem
from gcsfs.retry import HttpError

# Marks the address of an upload; in all other addresses names are quoted and contain no `=`.
SESSION: Final = "upload_id="
HTTP_GONE: Final = 410

# Stands for a status that gcsfs discards; a retryable one, because the lost one may have been.
_UNKNOWN_STATUS: Final = 500


class Gcs(GCSFileSystem):  # type: ignore[misc]  # gcsfs has no types
    """The gcsfs file system restricted to HTTP.

    gcsfs's extended file system also uses gRPC, whatever the configured endpoint. For an answer that contains
    "invalid", gcsfs drops the status and raises ValueError, as a programming error would; this class restores
    a status.
    """

    async def _request(self, *arguments: Any, **more: Any) -> Any:
        try:
            return await super()._request(*arguments, **more)
        except ValueError as refusal:
            if not str(refusal).startswith("Bad Request: "):
                raise
            # "Invalid" about an upload means that the upload no longer exists.
            raise HttpError({"code": HTTP_GONE if SESSION in str(refusal) else _UNKNOWN_STATUS}) from None
