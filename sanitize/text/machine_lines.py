"""Lines that a machine writes on its screen: units, modes, presets, numbers of settings.

The top and the bottom of a captured screen hold the patient, the institution and the time between settings.
An institution may consist of ordinary words ("WEST"), so there a line counts as harmless only if everything
in it is of a closed list.
"""

from __future__ import annotations

import re
from functools import cache

from medsanitize.policies.tables.vocabulary import defined_terms, device_models, fold
from medsanitize.sanitize.text.image_markers import is_image_marker

# BodyPartExamined, ViewName, PatientPosition, ViewPosition, TransducerType, Modality (PS3.3, PS3.16).
_ATTRIBUTES = (0x00180015, 0x00082127, 0x00185100, 0x00185101, 0x00186031, 0x00080060)
# Words of them that are ordinary words of institutions.
_NOT_MACHINE = frozenset(["service", "other", "unknown", "none"])
_UNITS = """
    mm cm dm um nm ml cc dl mg kg kv kvp kev mev mv ma mas gy mgy cgy sv msv mbq kw mw hz khz mhz ghz
    sec ms msec min hr fps bpm db mmhg kpa deg px pixel pixels dpi lp hu ppm rpm mms cms
"""
_MODES = """
    bmode mmode pw cw cwd pwd cfm cfi cpa cdi cpd tdi dti swe elasto harm harmonic compound duplex
    triplex color colour doppler power flow vel velocity map dyn dynamic range rng gain gn depth dep
    focus zoom scale persist persistence smooth wall filter wf prf pwr freq frequency fr frame frames
    rate dr ps edge enhance avg average lo low med high hi opt res pen gen live freeze frozen
    cine loop clip print measure calc menu sector linear curved convex probe transducer tx rx inv
    invert baseline sweep speed angle steer sv size mi ti tis tib tic ai ao bd tint dens density
    proc auto manual on off contrast bright brightness ap dist diam area vol circ length portable
    supine erect upright prone tse fse gre flair stir window level ww wl te tr fa fov
    nex nsa thk slice gap mip mpr dose dlp ctdi ctdivol dap ei di sid kernel mono acq series se im image
    img page view zm mag
"""
_PRESETS = """
    abd abdomen abdominal adult ped peds pediatric cardiac card echo obstetric ob gyn gyne obgyn fetal
    msk nerve vascular vasc carotid arterial venous ven thyroid breast small parts superficial renal
    urology prostate testicular tcd ivus tee tte early crd lung fast efast procedure needle
"""
_MAKERS = """
    ge philips siemens toshiba canon hitachi aloka esaote mindray samsung medison sonosite acuson zonare
    fujifilm olympus pentax storz konica kodak agfa logiq vivid voluson epiq affiniti aplio
"""
_DIGITS = 3
_SHORT = 2
# Dates and times of day: two or three numbers between signs that no quantity has.
_DATE_OR_TIME = re.compile(
    r"(?<!\d)(?:\d{1,4}[/.\-]\d{1,2}[/.\-]\d{1,4}|\d{1,2}\s?[:;h]\s?\d{1,2}(?:\s?[:;.m]\s?\d{1,2})?)(?!\d)"
)
# A title before a word: DR and MR are also settings, before a number.
_TITLE = re.compile(r"(?<![^\W_])(?:dr|mr|ms|mrs|prof)\b\.?\s*[^\W\d_]", re.IGNORECASE)
_TOKEN = re.compile(r"[^\W_]+(?:[.,]\d+[^\W_]*)*")
_RUN = re.compile(r"\d+(?:[.,]\d+)?|[^\W\d_]+")


def is_machine_line(text: str) -> bool:
    """Return whether everything in a line is of a machine: settings, modes, presets, body parts, probes.

    Parameters
    ----------
    text : str
        The line as OCR read it.

    Returns
    -------
    bool
        False for dates, times of day, numbers of four digits or more and every word that is not listed.
    """
    if _DATE_OR_TIME.search(text) or _TITLE.search(text):
        return False
    if fold(" ".join(text.split())) in device_models():
        return True
    return all(_is_machine_token(token) for token in _TOKEN.findall(text))


def _is_machine_token(token: str) -> bool:
    if _is_listed(token):
        return True
    runs = _RUN.findall(token)
    letters = [run for run in runs if not run[0].isdigit()]
    digits = [run for run in runs if run[0].isdigit()]
    if any(len(re.split("[.,]", run)[0]) > _DIGITS for run in digits):
        return False
    if not digits:
        return len(token) == 1 and token.isascii()
    # A number with its unit or its setting, and names of probes: C5, BM12L.
    return all(_is_listed(run) or (len(run) <= _SHORT and run.isascii()) for run in letters)


def _is_listed(word: str) -> bool:
    return fold(word) in _listed() or is_image_marker(word)


@cache
def _listed() -> frozenset[str]:
    own = " ".join((_UNITS, _MODES, _PRESETS, _MAKERS)).split()
    terms = (
        fold(part)
        for tag in _ATTRIBUTES
        for term in defined_terms()[tag]
        for part in re.split(r"[\s_]", term)
    )
    return frozenset((*own, *terms)) - _NOT_MACHINE
