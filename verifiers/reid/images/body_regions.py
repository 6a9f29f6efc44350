"""Body regions by the words of DICOM headers: Body Part Examined (PS3.16 Annex L), codes and descriptions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

# Words by region: defined terms of Body Part Examined, words of CID 4, and names in other languages.
_WORDS: Final = {
    "head": (
        "HEAD BRAIN SKULL FACE FACIAL SINUS SINUSES ORBIT ORBITS ORBITAL EYE EAR IAC IAM CRANIAL CRANIUM"
        " NEURO CEREBRUM CEREBRAL CEREBELLUM INTRACRANIAL SELLA PITUITARY HYPOPHYSIS MANDIBLE MAXILLA JAW"
        " TMJ ZYGOMA NOSE NASAL MASTOID PAROTID PETROUS TEMPORALBONE PARANASALSINUS SCALP CIRCLEOFWILLIS"
        " KOPF SCHADEL SCHAEDEL HIRN GEHIRN CRANE CRANIO TETE CERVEAU ENCEPHALE CABEZA CEREBRO CRANEO"
        " TESTA ENCEFALO CERVELLO HOOFD HERSENEN HUVUD HJARNA FONTANEL THALAMUS CHOROIDPLEXUS"
        " CAVERNOUSSINUS TONGUE MOUTH"
    ),
    "neck": (
        "NECK LARYNX PHARYNX HYPOPHARYNX NASOPHARYNX SUBMANDIBULAR THYROID PARATHYROID CAROTID HALS COU"
        " CUELLO COLLO NEK SCHILDDRUSE"
    ),
    "chest": (
        "CHEST THORAX LUNG LUNGS RIB RIBS STERNUM MEDIASTINUM CXR TRACHEA BRONCHUS PULMONARY LUNGE"
        " BRUSTKORB ESOPHAGUS THYMUS POUMON POUMONS PULMON PULMONES TORACE TORAX POLMONE BORST LONGEN"
    ),
    "heart": (
        "HEART CARDIAC CORONARY CORONARYARTERY CARDIO HERZ COEUR CORAZON CUORE HART HJARTA ECHOCARDIOGRAPHY"
    ),
    "breast": ("BREAST BREASTS MAMMA MAMMOGRAPHY SEIN SEINS MAMA MAMMELLA"),
    "abdomen": (
        "ABDOMEN ABDOMINAL LIVER KIDNEY KIDNEYS SPLEEN PANCREAS STOMACH GALLBLADDER ADRENAL COLON"
        " DUODENUM KUB APPENDIX SIGMOID SMALLBOWEL SMALLINTESTINE LARGEINTESTINE URETER ABDO JEJUNUM ILEUM"
        " RETROPERITONEUM BILEDUCT BILIARY MRCP RENAL HEPATIC LEBER NIERE FOIE REIN HIGADO RINON FEGATO"
        " RENE LEVER ADDOME BAUCH ASCENDINGCOLON TRANSVERSECOLON DESCENDINGCOLON EPIGASTRIC PANCREATICDUCT"
        " COMMONBILEDUCT CBD BILIARYTRACT UMBILICAL LIVERANDBILIARY"
    ),
    "pelvis": (
        "PELVIS PELVIC HIP HIPS PROSTATE BLADDER UTERUS OVARY RECTUM CERVIX SIJOINT BECKEN BASSIN HANCHE"
        " SCROTUM TESTIS VAGINA CADERA ANCA BEKKEN HUFTE HUEFTE BACINO PROSTATA INGUINAL ENDOMETRIUM"
        " PERINEUM SACROILIACJOINT"
    ),
    "spine": (
        "SPINE CSPINE TSPINE LSPINE SSPINE LSSPINE CTSPINE TLSPINE SCSPINE SPINAL SPINALCORD COCCYX"
        " SACRUM LUMBAR TAILBONE MYELON WIRBELSAULE WIRBELSAEULE HWS BWS LWS RACHIS COLUMNA COLONNA"
        " WERVELKOLOM MYELOGRAM"
    ),
    "arm": (
        "ARM HAND WRIST FINGER FINGERS THUMB ELBOW FOREARM HUMERUS SHOULDER CLAVICLE SCAPULA ACJOINT"
        " UPPERARM UPPERLIMB UPPEREXTREMITY RADIUSULNA COLLARBONE RADIUS ULNA SCHULTER ELLENBOGEN EPAULE"
        " COUDE POIGNET MAIN HOMBRO CODO MUNECA MANO SPALLA GOMITO POLSO SCHOUDER"
    ),
    "leg": (
        "LEG KNEE ANKLE FOOT FEET TOE TOES FEMUR THIGH CALF TIBIA FIBULA PATELLA CALCANEUS LOWERLIMB"
        " LOWERLEG LOWEREXTREMITY TIBIAFIBULA FOREFOOT LEFTFOOT RIGHTFOOT MENISCUS TARSALJOINT KNIE FUSS"
        " GENOU CHEVILLE PIED RODILLA TOBILLO PIE GINOCCHIO CAVIGLIA PIEDE ENKEL VOET"
    ),
}
_REGION: Final = {word: region for region, words in _WORDS.items() for word in words.split()}
# Terms that name several regions in one word.
_SEVERAL: Final = {
    "CHESTABDOMEN": ("chest", "abdomen"),
    "CHESTABDPELVIS": ("chest", "abdomen", "pelvis"),
    "CHESTABDPELVIC": ("chest", "abdomen", "pelvis"),
    "TRUNK": ("chest", "abdomen", "pelvis"),
    "TORSO": ("chest", "abdomen", "pelvis"),
    "ABDOMENPELVIS": ("abdomen", "pelvis"),
    "HEADNECK": ("head", "neck"),
    "NECKCHEST": ("neck", "chest"),
    "NECKCHESTABDOMEN": ("neck", "chest", "abdomen"),
    "NECKCHESTABDPELV": ("neck", "chest", "abdomen", "pelvis"),
}
_TRUNK: Final = frozenset({"chest", "abdomen", "pelvis"})
# Concepts of CID 4 and 4031 by SNOMED CT and SNOMED RT code, for items without a meaning that is known.
_CODES: Final = {
    **{"69536005": "head", "T-D1100": "head", "12738006": "head", "T-A0100": "head", "89546000": "head"},
    **{"45048000": "neck", "T-D1600": "neck", "51185008": "chest", "T-D3000": "chest", "43799004": "chest"},
    **{"80891009": "heart", "T-32000": "heart", "76752008": "breast", "T-04000": "breast"},
    **{"818981001": "abdomen", "113345001": "abdomen", "T-D4000": "abdomen"},
    **{"816092008": "pelvis", "12921003": "pelvis", "T-D6000": "pelvis"},
    **{"421060004": "spine", "T-11500": "spine", "122494005": "spine", "122496007": "spine"},
    **{"53120007": "arm", "T-D8000": "arm", "85562004": "arm", "16982005": "arm"},
    **{"61685007": "leg", "T-D9000": "leg", "72696002": "leg", "56459004": "leg", "70258002": "leg"},
}


def region_of(texts: Iterable[str], codes: Iterable[str] = ()) -> str:
    """Return the one body region that texts and codes name.

    Parameters
    ----------
    texts : iterable of str
        Body part, descriptions and meanings of codes, in any case and spelling.
    codes : iterable of str
        Code values of anatomic regions.

    Returns
    -------
    str
        ``trunk`` for several of chest, abdomen and pelvis; empty for no region and for other combinations.
    """
    found = {_CODES[code] for code in codes if code in _CODES}
    for text in texts:
        found |= _regions(text)
    if len(found) > 1 and found <= _TRUNK:
        return "trunk"
    return found.pop() if len(found) == 1 else ""


def _regions(text: str) -> set[str]:
    plain = "".join(one for one in unicodedata.normalize("NFKD", text) if not unicodedata.combining(one))
    words = re.findall("[A-Z]+", plain.upper())
    # Two words may be one term: "C SPINE", "upper arm".
    joined = ["".join(words), *(one + other for one, other in pairwise(words))]
    found = {region for word in (*words, *joined) for region in _SEVERAL.get(word, ())}
    return found | {_REGION[word] for word in (*words, *joined) if word in _REGION}
