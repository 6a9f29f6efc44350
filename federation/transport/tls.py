"""TLS between parties: version 1.3, and certificates of both sides, each accepted only if it is trusted."""

from __future__ import annotations

import ssl
from collections.abc import Iterable

from medsanitize.federation.parties.identity import CERTIFICATE, SIGNING_KEY, Identity, LocalParty


def server_context(party: LocalParty, partners: Iterable[Identity]) -> ssl.SSLContext:
    """Return a context that accepts connections of trusted partners only."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, party)
    for partner in partners:
        context.load_verify_locations(cadata=partner.certificate)
    return context


def client_context(party: LocalParty, partner: Identity) -> ssl.SSLContext:
    """Return a context that accepts one partner only, whatever the name of its machine."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, party)
    context.load_verify_locations(cadata=partner.certificate)
    return context


def _context(protocol: int, party: LocalParty) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The certificate itself is trusted, not an authority that vouches for the name of a machine.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(party.folder / CERTIFICATE, party.folder / SIGNING_KEY)
    return context
