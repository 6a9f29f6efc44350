"""Google Cloud Storage as gcsfs speaks to it, with a status for every refusal."""

from __future__ import annotations

from typing import Any, Final

from gcsfs.core import GCSFileSystem
from gcsfs.retry import HttpError

SESSION: Final = "upload_id="
"""In the address of an upload; in all others names are quoted, and hold no ``=``."""
GONE: Final = 410

_UNKNOWN: Final = 500
"""In place of the status that is lost: it may have been one that passes."""


class Gcs(GCSFileSystem):  # type: ignore[misc]  # gcsfs has no types
    """The file system of gcsfs that asks by HTTP alone; its other one asks by gRPC too, whatever the address.

    Of an answer that speaks of something invalid the library keeps no status and raises ValueError, which a
    mistake in a program is too. An upload of which that is said is not there any more.
    """

    async def _request(self, *asked: Any, **more: Any) -> Any:
        try:
            return await super()._request(*asked, **more)
        except ValueError as refusal:
            if not str(refusal).startswith("Bad Request: "):
                raise
            raise HttpError({"code": GONE if SESSION in str(refusal) else _UNKNOWN}) from None
