"""Words of names, institutions and addresses that do not identify by themselves."""

from __future__ import annotations

from typing import Final

PARTICLES: Final = frozenset(
    "van von der den dem des del della delle dello degli dos das dal dalla los las les the and und ten "
    "ter zur zum vom vander vanden bin ibn ben abu mrs miss mister herr frau prof jun sen iii esq phd".split()
)
"""Parts of names and titles that are also ordinary words, of three letters and more."""

NOT_NAMES: Final = frozenset(
    "anonymous anonymized anonymised anonym unknown unbekannt inconnu none null test tester patient "
    "doctor physician operator technologist technician user admin administrator service name phantom "
    "research unspecified withheld removed".split()
)
"""Placeholders that systems write if a name is missing."""

INSTITUTION_WORDS: Final = frozenset(
    "hospital hospitals hosp clinic clinics klinik kliniken klinikum poliklinik universitatsklinikum "
    "universitaetsklinikum clinique clinica hopital hopitaux chu ospedale ospedali ospedaliera "
    "policlinico hospitalier azienda ziekenhuis sykehus sygehus sjukhus szpital nemocnice krankenhaus "
    "spital kantonsspital universitatsspital universitaetsspital inselspital institute institut instituto "
    "istituto university universitat universitaet universite universidad universidade universita "
    "universiteit universitets uniwersytecki universitario universitaria universitaire foundation "
    "stiftung fondazione fundacion trust nhs charite centre center centro zentrum centrum medical "
    "medicine medizin medizinische medico medicale regional memorial general community county municipal "
    "national royal college school academy faculty department dept abteilung service services servicio "
    "unit ward station praxis practice gemeinschaftspraxis imaging radiology radiologie radiologia health "
    "healthcare sante salud saint santa sankt mercy children childrens kinderklinik veterans affairs "
    "associates group partners system systems laboratory labor company corporation limited gmbh north "
    "south east west central the and for und der des del della".split()
)
"""Kinds of institutions and words that are often part of their names."""

STREET_WORDS: Final = frozenset(
    "street streets st str road rd avenue ave av lane ln boulevard blvd court ct square sq highway hwy "
    "drive dr terrace ter crescent cres place pl parkway pkwy circle cir close way strasse straße allee "
    "platz weg gasse ring damm ufer chaussee rue chemin quai route impasse calle avenida paseo plaza "
    "carrera via viale vicolo piazza corso rua travessa largo praca straat laan plein gracht kade gade "
    "vej vejen gatan gata vagen veien ulica ul ulice aleja apartment apt suite ste floor fl building bldg "
    "room block flat house unit box postfach city town village province district state north south east "
    "west upper lower saint san santa sankt new port lake mount fort the der des del und bei am im an de "
    "la le".split()
)
"""Kinds of streets and places and words that are often part of their names."""
