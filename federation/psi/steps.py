"""The steps of private set intersection, run by `libraries.child` in the process of OpenMined PSI."""

from __future__ import annotations

from functools import partial
from typing import Any


def steps() -> dict[str, Any]:
    """Import the library, and return the steps by name."""
    import private_set_intersection.python as psi  # type: ignore[import-not-found]

    named = {"request": _request, "answer": _answer, "count": _count}
    return {name: partial(step, psi) for name, step in named.items()}


def _items(part: bytes) -> list[str]:
    return part.decode("ascii").split()


def _request(psi: Any, facts: dict[str, Any], parts: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """Blind the items of the asking party with a new key."""
    client = psi.client.CreateWithNewKey(facts["reveal"])
    request = client.CreateRequest(_items(parts[0]))
    return {}, [request.SerializeToString(), client.GetPrivateKeyBytes()]


def _answer(psi: Any, facts: dict[str, Any], parts: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """Blind the items of both parties with a new key of the answering party."""
    items, blinded = _items(parts[0]), psi.Request()
    blinded.ParseFromString(parts[1])
    # More elements than announced would be a larger query than the one that was admitted.
    if len(blinded.encrypted_elements) != facts["asked"] or blinded.reveal_intersection != facts["reveal"]:
        raise ValueError
    server = psi.server.CreateWithNewKey(facts["reveal"])
    # RAW: the other structures of the library give false positives.
    setup = server.CreateSetupMessage(1e-9, facts["asked"], items, psi.DataStructure.RAW)
    return {}, [setup.SerializeToString(), server.ProcessRequest(blinded).SerializeToString()]


def _count(psi: Any, facts: dict[str, Any], parts: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """Count the common items, or number them where both parties agreed to reveal them."""
    key, setup, response = parts[0], psi.ServerSetup(), psi.Response()
    setup.ParseFromString(parts[1])
    response.ParseFromString(parts[2])
    if (
        len(response.encrypted_elements) != facts["asked"]
        or len(setup.raw.encrypted_elements) != facts["answered"]
    ):
        raise ValueError
    client = psi.client.CreateFromKey(key, facts["reveal"])
    if facts["reveal"]:
        found = sorted(client.GetIntersection(setup, response))
        return {"count": len(found), "places": found}, []
    return {"count": client.GetIntersectionSize(setup, response)}, []
