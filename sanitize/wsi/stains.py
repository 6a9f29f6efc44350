"""Allow lists of stains and channels: a release names no other, as free text may identify."""

from __future__ import annotations

import re

_NAMES = (
    "H&E Hematoxylin Eosin PAS Masson-Trichrome Trichrome Giemsa Gram Alcian-Blue Congo-Red Reticulin "
    "Silver Prussian-Blue Perls Oil-Red-O Elastica van-Gieson Movat Luxol-Fast-Blue Nissl Ziehl-Neelsen "
    "Grocott GMS Warthin-Starry Toluidine-Blue Papanicolaou Wright DAPI IHC FISH CISH Ki-67 HER2 ER PR "
    "AR PSA PD-L1 PD-1 p16 p40 p53 p63 CD3 CD4 CD5 CD7 CD8 CD10 CD15 CD19 CD20 CD21 CD23 CD30 CD31 CD34 "
    "CD38 CD43 CD44 CD45 CD56 CD57 CD61 CD68 CD79a CD99 CD117 CD138 CD163 CK5/6 CK7 CK20 AE1/AE3 Pan-CK "
    "EMA CEA TTF-1 Napsin-A CDX2 GATA3 PAX8 WT1 S100 SOX10 Melan-A HMB45 Desmin Vimentin SMA Actin "
    "Chromogranin Synaptophysin NSE GFAP IDH1 ATRX NeuN MLH1 MSH2 MSH6 PMS2 BRAF ALK ROS1 FOXP3 BCL2 "
    "BCL6 MUM1 Cyclin-D1 E-Cadherin Beta-Catenin AMACR Calretinin D2-40 Inhibin HepPar-1 Arginase-1 MPO "
    "TdT Tryptase C4d"
).split()
# Spellings that do not fold to a listed name.
_VARIANTS = {
    "he": "H&E",
    "hande": "H&E",
    "hematoxylineosin": "H&E",
    "haematoxylineosin": "H&E",
    "ki67": "Ki-67",
}


def _folded(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold().replace("&", "and"))


_KNOWN = {_folded(name): name for name in _NAMES} | _VARIANTS


_CHANNELS = re.compile(
    r"DAPI|FITC|Cy3|Cy5|Cy7|Texas ?Red|TRITC|CFP|GFP|YFP|mCherry|Autofluorescence|AF|Brightfield|"
    r"Opal ?(?:480|520|540|570|620|650|690|780)|Alexa ?\d{3}",
    re.IGNORECASE,
)


def known_channel(text: str) -> str:
    """Return the name of a fluorescence channel without its blanks, or an empty string if not allowed."""
    return text.replace(" ", "") if _CHANNELS.fullmatch(text) else ""


def known_stain(text: str) -> str:
    """Return the stain in its canonical spelling, or an empty string if not allowed."""
    return _KNOWN.get(_folded(text), "")
