"""Known values of a subject remove only themselves from clinical text."""

from __future__ import annotations

import pytest
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.text.edit_distance import edit_distance
from medsanitize.sanitize.text.folding import fold_letters
from medsanitize.sanitize.text.known_identifiers import compile_terms, find_known_identifiers

from tests.helpers.known_subject import fakers, mark_identifiers, subject_of

CLINICAL = tuple(
    phrase.strip()
    for phrase in """
    CT CHEST ABD PELVIS W CONTRAST; CT HEAD WO CONTRAST; MRI BRAIN W AND WO CONTRAST
    MR PROSTATE MULTIPARAMETRIC; CHEST PA AND LATERAL; XR CHEST PORTABLE 1 VIEW; KNEE 3 VIEWS LEFT
    SCREENING MAMMOGRAM BILATERAL; US ABDOMEN COMPLETE; US OB SECOND TRIMESTER
    PET CT SKULL BASE TO MID THIGH; SECONDARY CAPTURE SUMMARY; MEASUREMENT REPORT; AXIAL 5.0 B30f
    post contrast 5mm; LUNG 1.25MM; T2 TSE AX FS; DWI b1000 ADC; POST GAD T1 SAG; AP STANDING; R MLO
    TRANSVERSE LIVER; WB AC 3D; SCREEN SAVE; Lesion measurements; Thorax Routine
    history of breast cancer, rule out metastasis; XR CHEST 2 VIEWS; MRI BRAIN WITHOUT
    evaluate for pulmonary embolism; pneumonia; sepsis; motion artifact; iodine allergy; PACEMAKER
    12 mm nodule in right upper lobe; stable disease; lymphoma in remission; ax T2 frFSE ir FS
    t1_mprage_sag_p2_iso; ep2d_diff_4scan_trace_p2; SAG T2 FLAIR; AX SWI; COR STIR; 3D TOF; MIP HEAD
    MRA CIRCLE OF WILLIS; CT ANGIO ABDOMEN; DELAYED 10 MIN; ARTERIAL PHASE; PORTAL VENOUS PHASE
    LIVER 4 PHASE; RENAL STONE PROTOCOL; LOW DOSE LUNG SCREENING; CARDIAC GATED; CALCIUM SCORE
    BRAIN PERFUSION; CT NECK SOFT TISSUE; L SPINE AP LATERAL; C SPINE 5 VIEWS; HIP UNILATERAL; FOOT 3V
    WRIST PA; SHOULDER AP Y VIEW; ABDOMEN KUB; BARIUM SWALLOW; UPPER GI SERIES; FLUORO GUIDED BIOPSY
    IVC FILTER; THYROID ULTRASOUND; CAROTID DUPLEX; RENAL DOPPLER; PELVIS TRANSVAGINAL; ECHO 4 CHAMBER
    NM BONE SCAN WHOLE BODY; MYOCARDIAL PERFUSION STRESS; FDG PET; DOTATATE; V/Q SCAN
    DXA HIP AND SPINE; BREAST TOMOSYNTHESIS; R CC; L CC; MAGNIFICATION VIEW; STEREOTACTIC; 512 x 512
    kVp 120; 200 mAs; 1.5 T; TE 90 TR 4500; FOV 240 mm; 30 slices; SEMI-UPRIGHT; MI 0.9 TIS 0.4; 5 cm
    SUPINE; PRONE; DECUBITUS; LEFT ANTERIOR OBLIQUE; INTRAVENOUS CONTRAST; ORAL CONTRAST
    shortness of breath; chest pain; cough and fever; abdominal pain; headache; dizziness
    back pain with numbness; hematuria; elevated creatinine; status post resection; post operative
    known aneurysm; no acute findings; unchanged since prior; mild degenerative changes
    moderate effusion; small hiatal hernia; fatty liver; gallstones; hydronephrosis; fracture
    IRM cérébrale avec gadolinium; Thorax nativ; TC torace; RX torax AP; Schädel nativ; MRT Knie rechts
    Abdomen sin contraste; image 1 of 30; series 3; 45 years; 070Y; M; F; HFS; 0.5\\0.5
    1\\0\\0\\0\\1\\0; ORIGINAL; PRIMARY; AXIAL; DERIVED; Recon 2: 0.625; STND; BONE PLUS; B70s; I30f
    Br40d; H60; ASIR 30; iDose 4; SAFIRE; MAR; DLIR; VMI 70 keV; iodine map; quality assurance; phantom
    localizer; scout; topogram; surview; dose report; smart prep; test bolus; monitoring
    left ventricular ejection fraction; mitral valve; aortic root; patent foramen ovale
    pulmonary nodule; ground glass; interval growth; spiculated margin; BI-RADS 4; LI-RADS 3; PI-RADS 2
    TI-RADS; fibroadenoma; cyst; abscess; hernia repair; lumbar puncture; epidural injection; PICC line
    chest tube; ET tube position; NG tube; joint effusion; meniscus tear; rotator cuff
    ACL reconstruction; total hip arthroplasty; hardware removal; callus formation; scoliosis
    spondylosis; disc protrusion L4/L5; cauda equina; tumor staging; restaging after chemotherapy
    radiation planning; PTV 50; GTV; CTV
    """.replace("\n", ";").split(";")
    if phrase.strip()
)


@pytest.mark.parametrize(
    ("category", "value"),
    [
        *(
            ("id", "CT"),
            ("id", "12"),
            ("id", "T2"),
            ("id", "000"),
            ("label", "MR"),
            ("label", "HEAD"),
            ("name", "Dr^A"),
        ),
        *(
            ("institution", "General Hospital"),
            ("organization", "Radiology"),
            ("place", "US"),
            ("address", "5 The Street"),
        ),
        *(("name", "UNKNOWN"), ("name", "PATIENT^TEST"), ("label", "Discovery CT750 HD"), ("phone", "112")),
        *(("name", ""), ("name", "^^^"), ("date", "2004"), ("text", "x" * 5000), ("nonsense", "chest")),
    ],
)
def test_short_and_generic_values_remove_no_clinical_text(category: str, value: str) -> None:
    subject = compile_terms([KnownValue(category, value)])
    text = "CT HEAD T2 12 mm in the radiology, US, MR street hospital patient unknown test A x CT750 HD chest"

    assert mark_identifiers(text, subject) == text


def test_clinical_phrases_lose_only_words_shared_with_the_subject() -> None:
    assert len(CLINICAL) >= 200
    makers = fakers()
    for number in range(200):
        known = subject_of(makers[number % len(makers)], number)
        subject = compile_terms(known)
        own = {
            fold_letters(word)
            for one in known
            for word in one.value.replace("^", " ").replace(",", " ").split()
        }
        for phrase in CLINICAL:
            for cut in find_known_identifiers(phrase, subject):
                word = fold_letters(phrase[cut.start : cut.end])
                assert any(edit_distance(word, other, 2) <= 2 for other in own), (phrase, cut)
