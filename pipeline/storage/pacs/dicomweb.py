"""DICOMweb client: QIDO-RS to find, WADO-RS to retrieve, STOW-RS to store."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.storage.pacs.address import Instance, WebService
from medsanitize.pipeline.storage.pacs.match_keys import Answer
from medsanitize.pipeline.storage.pacs.multipart import single_part
from medsanitize.pipeline.storage.pacs.pacs_retry import (
    ObjectNotFound,
    ObjectRefused,
    ServiceNotOffered,
    TransientFailure,
)
from pydicom.datadict import keyword_for_tag

Result = TypeVar("Result")

_PAGE: Final = 1000
_SECONDS: Final = (10, 120)
# A UID that no study has.
_UNUSED_UID: Final = "2.25.1"
_RETURNED_FIELDS: Final = ("NumberOfStudyRelatedSeries", "NumberOfSeriesRelatedInstances", "SOPClassUID")
_ACCEPT: Final = 'multipart/related; type="application/dicom"; transfer-syntax=*'


class WebConnection:
    """One HTTP session with a service; TLS certificates are verified, redirects are not followed.

    Raises
    ------
    UsageError
        The environment variable that holds the credential is not set.
    """

    def __init__(self, service: WebService) -> None:
        import requests
        from dicomweb_client import DICOMwebClient

        _silence()
        self._who = service
        self._errors = requests.RequestException
        self._session = requests.Session()
        # A redirect could carry the request, and its credential, to another host.
        self._session.max_redirects = 0
        self._session.headers["Accept-Encoding"] = "identity"
        self._session.auth = _authentication(service)
        self._client = DICOMwebClient(
            service.url, session=self._session, timeout=_SECONDS, permissive_uid=True
        )
        # Retries are the task of `storage.pacs.retry`.
        self._client.set_http_retry_params(retry=False)

    def __repr__(self) -> str:
        return "WebConnection(...)"

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._session.close()

    def check(self) -> None:
        """Query for a study that does not exist."""
        self._request_safely(
            lambda: self._client.search_for_studies(limit=1, search_filters={_UID: _UNUSED_UID})
        )

    def check_port(self) -> None:
        """Nothing to check: DICOMweb does not deliver to a port."""

    def find(self, above: tuple[str, ...], keys: Mapping[str, str]) -> list[Answer]:
        """Query page by page until a page is empty, because services limit pages as they like."""
        found: dict[tuple[tuple[str, ...], ...], Answer] = {}
        offset = 0
        while page := self._page(above, keys, offset):
            new = {_uids(one): one for one in page if _uids(one) not in found}
            if not new:
                raise ServiceNotOffered(
                    f"{self._who} returns the same page repeatedly, so its lists cannot be read completely",
                    "Enable paging by offset (QIDO-RS), or read it as a DICOM peer (dimse)",
                )
            found.update(new)
            offset += len(page)
        return list(found.values())

    def _page(self, above: tuple[str, ...], keys: Mapping[str, str], offset: int) -> list[Answer]:
        search: Callable[..., list[dict[str, Any]]] = (
            self._client.search_for_studies,
            self._client.search_for_series,
            self._client.search_for_instances,
        )[len(above)]
        fields, filters = sorted({*keys, *_RETURNED_FIELDS}), dict(keys)
        try:
            page = self._request_safely(
                lambda: search(*above, limit=_PAGE, offset=offset, fields=fields, search_filters=filters),
                of_object=bool(above or offset),
            )
        except ObjectRefused as failure:
            if (
                isinstance(failure, ObjectNotFound) and not offset
            ):  # some services answer 404 when nothing matches
                return []
            # An incomplete list must not pass for a complete one.
            raise TransientFailure(str(failure)) from None
        if not isinstance(page, list) or not all(isinstance(one, dict) for one in page):
            raise TransientFailure("an unreadable response")
        return [_answer(one) for one in page]

    def fetch(self, wanted: Instance) -> bytes:
        """Retrieve one object as stored, in any transfer syntax."""
        from dicomweb_client import URI

        url = URI(self._who.url, wanted.study, wanted.series, wanted.instance, permissive=True)

        def get() -> tuple[str, bytes]:
            answer = self._session.get(str(url), headers={"Accept": _ACCEPT}, timeout=_SECONDS)
            answer.raise_for_status()
            return answer.headers.get("Content-Type", ""), answer.content

        return single_part(*self._request_safely(get, of_object=True))

    def post(self, body: Any, headers: Mapping[str, str]) -> tuple[int, Any]:
        """Send one object by STOW-RS.

        Returns
        -------
        tuple of int and object
            The HTTP status, and the JSON response or None.

        Raises
        ------
        ObjectRefused
            The service does not store the object.
        """

        def request() -> tuple[int, Any]:
            url = f"{self._who.url}/studies"
            answer = self._session.post(url, data=body, headers=dict(headers), timeout=_SECONDS)
            answer.raise_for_status()
            said = None
            with suppress(ValueError):
                said = answer.json()
            return answer.status_code, said

        return self._request_safely(request, of_object=True)

    def _request_safely(self, call: Callable[[], Result], *, of_object: bool = False) -> Result:
        """Make one request and replace the library's errors, which may quote UIDs and URLs."""
        try:
            return call()
        except self._errors as failure:
            answer = getattr(failure, "response", None)
            kind = type(failure).__name__
        except ValueError:  # the response is not JSON
            answer, kind = None, "an unreadable response"
        status = None if answer is None else int(answer.status_code)
        if status in (401, 403, 407) or kind == "SSLError":
            raise self._service_error(status)
        if of_object and status is not None and status not in _BUSY:
            raise (ObjectNotFound if status in (404, 410) else ObjectRefused)(f"HTTP status {status}")
        if status is not None and 300 <= status < 500 and status not in _BUSY:
            raise EnvironmentFailure(
                f"{self._who} answers with HTTP status {status}", "Correct its address in the policy"
            )
        raise TransientFailure(kind if status is None else f"HTTP status {status}")

    def _service_error(self, status: int | None) -> EnvironmentFailure:
        if status is None:
            return EnvironmentFailure(
                f"{self._who} has an invalid certificate",
                "Add the authority that signed it to REQUESTS_CA_BUNDLE",
            )
        return EnvironmentFailure(
            f"{self._who} denies access (HTTP status {status})",
            "Give a credential with token or login, or renew it in the environment",
        )


_UID: Final = "StudyInstanceUID"
_BUSY: Final = frozenset((408, 425, 429, 502, 503, 504))


def _authentication(service: WebService) -> Callable[[Any], Any]:
    """Return the requests authentication; only here is the credential read from the environment."""
    if not service.variable:
        return _no_credential
    secret = os.environ.get(service.variable, "")
    if not secret or not secret.isascii() or not secret.isprintable():
        raise UsageError(  # does not quote the variable: a secret may have been written in its place
            f"The environment variable that {service.credential} names contains no valid credential",
            "Set it to the token, or to user:password for login",
        )
    if service.credential == "login":
        from requests.auth import HTTPBasicAuth

        user, _, password = secret.partition(":")
        return HTTPBasicAuth(user, password)

    def add_bearer_token(request: Any) -> Any:
        request.headers["Authorization"] = f"Bearer {secret}"
        return request

    return add_bearer_token


def _no_credential(request: Any) -> Any:
    """Add no credential; with ``auth=None``, requests would use ~/.netrc, over http:// as well."""
    return request


def _answer(one: Mapping[str, Any]) -> Answer:
    """Convert a DICOM JSON answer to values by keyword; keep only strings, integers and person names."""
    elements = ((_keyword(tag), element) for tag, element in one.items() if isinstance(element, dict))
    return {
        keyword: tuple(_text(value) for value in values if isinstance(value, str | int | dict))
        for keyword, element in elements
        if keyword and isinstance(values := element.get("Value", []), list)
    }


def _text(value: str | int | Mapping[str, Any]) -> str:
    """Convert a value to the form of C-FIND: the representations of a name joined by ``=`` (PS3.18 F.2.2)."""
    if not isinstance(value, Mapping):
        return str(value)
    writings = (value.get(one) for one in ("Alphabetic", "Ideographic", "Phonetic"))
    return "=".join(one if isinstance(one, str) else "" for one in writings).rstrip("=")


def _keyword(tag: str) -> str:
    if len(tag) != 8:
        return ""
    try:
        return keyword_for_tag(int(tag, 16))
    except ValueError:
        return ""


def _uids(answer: Answer) -> tuple[tuple[str, ...], ...]:
    return tuple(
        answer.get(level, ()) for level in ("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID")
    )


def _silence() -> None:
    """Turn off the libraries' logs, which quote UIDs."""
    for name in ("dicomweb_client", "requests", "urllib3"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.CRITICAL + 1)
        logger.propagate = False
