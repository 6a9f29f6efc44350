"""Words that are commonly burned into images: positions, projections, settings, measurements.

Most are in no dictionary and some are names in some language, so text cleaning would cut them. In an image
they describe its acquisition. The lists are without accents, which most devices do not write.
"""

from __future__ import annotations

import unicodedata
from functools import cache

_POSITIONS = """
    xtable xtlat crosstable mortise swimmer swimmers odontoid nwb pwb fwb semierect
    seitl bett halbsitzend halbliegend stehend liegend sitzend aufn
    assis assise couche couchee debout inspi expi procubitus decubitus lit profil
    supino supina prono prona sentado sentada acostado acostada bipedestacion decubito izq der portatil
    clino clinostatismo ortostatismo ortostasi seduto seduta letto carico dx sx
    deitado deitada ortostase leito perfil direita esquerda
    staand liggend zittend staende liggande sittande hoger vanster hojre venstre siddende liggende
    stojac lezac siedzac lewa lewy prawa prawy ayakta yatarak oturarak sag sol
    vstoje vleze vsede vpravo vlevo prava leva
"""
_SETTINGS = """
    page img ima frm cine res pen har thi gen dyn hprf prf dva dsa rao lao cran caud
    mb mboff mbon xres cri sri spb dff sct
"""
_MEASURES = """
    lvidd lvids ivsd ivss lvpwd lvpws lvot rvot tapse psv edv vmax vmean vti fhr bpd ofd efw edc lmp gsd crl
    rvsp mva ava pht evel avel aao asc dec
"""


def is_image_marker(word: str) -> bool:
    """Return whether a word is an image marker, regardless of case and accents."""
    split = unicodedata.normalize("NFKD", word.casefold())
    return "".join(letter for letter in split if letter.isalnum()) in _marks()


@cache
def _marks() -> frozenset[str]:
    return frozenset(f"{_POSITIONS} {_SETTINGS} {_MEASURES}".split())
