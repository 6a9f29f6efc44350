"""What a patient and study are known to be called is found however it is spelt, and nothing else."""

from __future__ import annotations

import time
from datetime import date
from itertools import pairwise

import pytest
from faker import Faker
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.policies.tables.vocabulary import words as vocabulary
from medsanitize.sanitize.context import Known
from medsanitize.sanitize.text.folding import squeeze
from medsanitize.sanitize.text.generic import INSTITUTION_WORDS, STREET_WORDS
from medsanitize.sanitize.text.known import Terms, known_spans, terms
from medsanitize.sanitize.text.misspelt import distance
from medsanitize.verifiers.own import matcher
from medsanitize.verifiers.spelling import fold

SUBJECT = terms(
    [
        Known("name", "Smith^John^Adam"),
        Known("name", "O'Brien^Siobhán"),
        Known("name", "Müller-Lüdenscheidt^Jörg"),
        Known("name", "Sørensen^Åse"),
        Known("name", "Yamada^Taro=山田^太郎"),
        Known("name", "van der Berg^Li"),
        Known("id", "MR12345678"),
        Known("id", "CT1"),
        Known("id", "0004711"),
        Known("id", "AB-771-23"),
        Known("date", "20040119"),
        Known("date", "19510430120000"),
        Known("address", "4323 Wilkinson Avenue, Springfield 12345"),
        Known("phone", "(217) 555-1234"),
        Known("phone", "+49 89 5559876"),
        Known("institution", "Kowalski Memorial Hospital"),
        Known("label", "Sergeant 55512"),
        Known("uid", "1.2.840.99999.1.2.3.4"),
    ]
)

FRAMES = (
    "CT CHEST {}",
    "{} knee pain",
    "follow up for {}, left lower lobe nodule",
    "head ({}) w/o contrast",
    "*{}",
    "x: {}; y",
)

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


def shown(text: str, subject: Terms = SUBJECT, *, noisy: bool = False) -> str:
    for cut in reversed(known_spans(text, subject, noisy=noisy)):
        text = f"{text[: cut.start]}[{cut.rule.removeprefix('known-')}]{text[cut.end :]}"
    return text


@pytest.mark.parametrize(
    "name",
    [
        *(
            "JOHN SMITH",
            "Smith, John",
            "SMITH^JOHN",
            "smith john",
            "John A. Smith",
            "J. Smith",
            "SMITH, J.",
            "Smith J.",
        ),
        *(
            "SMITHJOHN",
            "JohnSmith",
            "JSmith",
            "smith_john",
            "S M I T H",
            "SMTIH",
            "Smmith",
            "Smithe",
            "JOHNN",
            "Smith's",
        ),
        *("O'Brien", "OBRIEN", "O Brien", "O’Brien", "O'Brein", "o'brien's", "SIOBHAN", "Siobhán O'Brien"),
        *(
            "Müller",
            "MULLER",
            "Mueller",
            "Müller-Lüdenscheidt",
            "Luedenscheidt",
            "MUELLERLUEDENSCHEIDT",
            "Joerg Muller",
        ),
        *(
            "Sørensen",
            "SOERENSEN",
            "Sorensen",
            "Aase Sørensen",
            "山田太郎",
            "山田",
            "Taro YAMADA",
            "van der Berg",
            "VANDERBERG",
        ),
    ],
)
@pytest.mark.parametrize("frame", FRAMES)
def test_a_known_name_is_cut_in_any_spelling_and_its_surroundings_stay(name: str, frame: str) -> None:
    assert shown(frame.format(name)) == frame.format("[name]")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("MRN 12345678", "MRN [id]"),
        ("mr-12345678 seen", "[id] seen"),
        ("1234 5678, 1234-5678", "[id]"),
        ("0012345678", "[id]"),
        ("pt mr12345678", "pt [id]"),
        ("no 4711 and 0004711", "no [id] and [id]"),
        ("AB 771 23", "[id]"),
        ("ab77123", "[id]"),
        ("ext 55512", "ext [id]"),
        ("uid 1.2.840.99999.1.2.3.4", "uid [id]"),
        ("CT1 CT", "[id] CT"),
        ("CT 1 of 2", "CT 1 of 2"),
        ("112345678 mm3", "112345678 mm3"),
    ],
)
def test_known_numbers_are_cut_with_any_separators_and_only_whole(text: str, left: str) -> None:
    assert shown(text) == left


@pytest.mark.parametrize(
    "day",
    [
        *(
            "20040119",
            "2004-01-19",
            "2004/1/19",
            "19.01.2004",
            "19. 1. 2004",
            "01/19/2004",
            "1/19/04",
            "19-01-04",
        ),
        *(
            "040119",
            "20040119123000",
            "19 Jan 2004",
            "19-JAN-2004",
            "January 19th, 2004",
            "Jan 19 2004",
            "January 19",
        ),
        *(
            "19. Januar 2004",
            "19 janvier 2004",
            "19 de enero de 2004",
            "19 gennaio 2004",
            "19 de janeiro de 2004",
        ),
        *(
            "19 januari 2004",
            "19 stycznia 2004",
            "19. januar 2004",
            "1951-04-30",
            "30 April 1951",
            "2004年1月19日",
        ),
        "04/30/51",
    ],
)
@pytest.mark.parametrize("frame", FRAMES[:3])
def test_a_known_date_is_cut_in_any_written_form(day: str, frame: str) -> None:
    assert shown(frame.format(day)) == frame.format("[date]")


@pytest.mark.parametrize(
    "text", ["20040120", "19.01.2005", "18 Jan 2004", "5.1.7", "may 12 mm", "T1 19 04", "1.5 T"]
)
def test_other_dates_and_numbers_are_left_to_others(text: str) -> None:
    assert shown(text) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("lives at 4323 Wilkinson Ave, Springfield 12345 , left lung", "lives at [address] , left lung"),
        ("4323 Wilkinson Avenue", "[address]"),
        ("avenue of the aorta, 4323 images", "avenue of the aorta, 4323 images"),
        ("call +1 217 555 1234 now", "call [phone] now"),
        ("217.555.1234", "[phone]"),
        ("555-1234", "[phone]"),
        ("0049 (0)89 5559876", "[phone]"),
        ("089/5559876", "[phone]"),
        ("sepsis, transferred from Kowalski Memorial Hospital", "sepsis, transferred from [institution]"),
        ("Hosp. Kowalski", "[institution]"),
        ("memorial hospital", "memorial hospital"),
        ("mail john.smith12@example.org x", "mail [name] x"),
        ("see https://portal.example.org/p/mr12345678.", "see [id]"),
        ("d:\\export\\smith\\ct x", "[name] x"),
    ],
)
def test_addresses_phones_institutions_and_links_go_with_what_belongs_to_them(text: str, left: str) -> None:
    assert shown(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("pt JS seen", "pt [name] seen"),
        ("Dr. J.S.", "Dr. [name]"),
        ("JS 5 mm", "JS 5 mm"),
        ("SMITH L KNEE", "[name] L KNEE"),
        ("van, der and de", "van, der and de"),
    ],
)
def test_initials_and_particles_are_cut_only_where_they_stand_for_a_person(text: str, left: str) -> None:
    assert shown(text) == left


def test_a_marker_of_side_beside_a_name_is_no_initial() -> None:
    subject = terms([Known("name", "Wagner^Laura")])

    assert shown("WAGNER L KNEE, WAGNER, L., LWAGNER", subject) == "[name] L KNEE, [name]"


@pytest.mark.parametrize("name", ["Hodgkin", "Black", "White", "Hand", "Head"])
def test_a_patient_called_like_a_clinical_word_loses_it_everywhere(name: str) -> None:
    subject = terms([Known("name", f"{name}^Ann")])

    assert name.lower() not in shown(f"{name} {name.lower()} lymphoma, {name.upper()}", subject).lower()


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
            ("organisation", "Radiology"),
            ("place", "US"),
            ("address", "5 The Street"),
        ),
        *(("name", "UNKNOWN"), ("name", "PATIENT^TEST"), ("label", "Discovery CT750 HD"), ("phone", "112")),
        *(("name", ""), ("name", "^^^"), ("date", "2004"), ("text", "x" * 5000), ("nonsense", "chest")),
    ],
)
def test_short_and_generic_values_cut_no_clinical_text(category: str, value: str) -> None:
    subject = terms([Known(category, value)])
    text = "CT HEAD T2 12 mm in the radiology, US, MR street hospital patient unknown test A x CT750 HD chest"

    assert shown(text, subject) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("SM1TH JOHN", "[name]"),
        ("5MITHJ0HN PORTABLE", "[name] PORTABLE"),
        ("Srnith AP", "[name] AP"),
        ("MRNI2345678", "[id]"),
        ("ID:l2345G78 kVp 120", "ID:[id] kVp 120"),
        ("O1/I9/2OO4", "[date]"),
        ("KOWALSKl MEMORlAL HOSP|TAL", "[institution]"),
        ("SEMI-UPRIGHT PORTABLE L R MI 0.9 TIS 0.4 5 cm", "SEMI-UPRIGHT PORTABLE L R MI 0.9 TIS 0.4 5 cm"),
    ],
)
def test_text_read_by_ocr_is_matched_through_its_errors(text: str, left: str) -> None:
    assert shown(text, noisy=True) == left


LOCALES = (
    "en_US",
    "de_DE",
    "fr_FR",
    "es_ES",
    "it_IT",
    "pl_PL",
    "nl_NL",
    "sv_SE",
    "pt_BR",
    "da_DK",
    "ja_JP",
    "ru_RU",
)


def fakers() -> list[Faker]:
    made = [Faker(locale) for locale in LOCALES]
    for seed, faker in enumerate(made):
        faker.seed_instance(seed)
    return made


NAMES = sorted({(faker.last_name(), faker.first_name()) for faker in fakers() for _ in range(40)})


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("CT CHEST 森", "CT CHEST "),
        ("森さん 胸部", "さん 胸部"),
        ("森 涼平", ""),
        ("森林浴", "森林浴"),
        ("青森", "青森"),
    ],
)
def test_a_family_name_of_one_character_goes_where_it_stands_alone(text: str, left: str) -> None:
    cuts = known_spans(text, terms([Known("name", "森^涼平")]))
    gone = {place for cut in cuts for place in range(cut.start, cut.end)}
    assert "".join(char for place, char in enumerate(text) if place not in gone) == left


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(NAMES), spelling=st.integers(0, 11), frame=st.sampled_from(FRAMES))
def test_any_persons_name_is_covered_in_every_spelling(
    name: tuple[str, str], spelling: int, frame: str
) -> None:
    family, given_name = name
    subject = terms([Known("name", f"{family}^{given_name}")])
    written = [
        *(
            f"{family} {given_name}",
            f"{given_name} {family}",
            f"{family}, {given_name}",
            f"{family}^{given_name}",
        ),
        *(
            f"{family}{given_name}",
            f"{given_name}_{family}",
            f"{family} {given_name}".upper(),
            family.lower(),
        ),
        *(
            squeeze(family + given_name),
            squeeze(given_name + family, wide=True),
            f"{given_name}.{family}",
            family.upper(),
        ),
    ][spelling]
    text = frame.format(written)
    start = text.index(written)

    covered = {place for cut in known_spans(text, subject) for place in range(cut.start, cut.end)}

    assert {start + place for place, char in enumerate(written) if char.isalnum()} <= covered


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    place=st.integers(0, 30),
    kind=st.sampled_from(["drop", "swap", "double", "change"]),
)
def test_one_slip_in_a_long_name_does_not_hide_it(name: tuple[str, str], place: int, kind: str) -> None:
    family = squeeze(name[0])
    place %= max(1, len(family) - 1)
    slip = {
        "drop": family[:place] + family[place + 1 :],
        "swap": family[:place] + family[place + 1 : place + 2] + family[place] + family[place + 2 :],
        "double": family[: place + 1] + family[place:],
        "change": family[:place] + "q" + family[place + 1 :],
    }[kind]
    if len(family) < 6 or len(slip) < 5 or slip in vocabulary() or slip in INSTITUTION_WORDS | STREET_WORDS:
        return
    subject = terms([Known("name", f"{family}^X")])

    assert shown(f"CT CHEST {slip} 5 mm", subject) == "CT CHEST [name] 5 mm"


def subject_of(faker: Faker, number: int) -> list[Known]:
    return [
        *(Known("name", f"{faker.last_name()}^{faker.first_name()}") for _ in range(5)),
        *(
            Known("id", f"MR{faker.random_int(10**7, 10**8)}"),
            Known("id", str(faker.random_int(1000, 99999))),
        ),
        *(Known("date", faker.date("%Y%m%d")) for _ in range(3)),
        *(Known("address", faker.address().replace("\n", ", ")), Known("phone", faker.phone_number())),
        *(Known("institution", f"{faker.last_name()} Memorial Hospital"), Known("label", f"STATION{number}")),
    ]


def test_clinical_phrases_lose_nothing_but_words_they_share_with_the_subject() -> None:
    assert len(CLINICAL) >= 200
    makers = fakers()
    for number in range(200):
        known = subject_of(makers[number % len(makers)], number)
        subject = terms(known)
        own = {
            squeeze(word) for one in known for word in one.value.replace("^", " ").replace(",", " ").split()
        }
        for phrase in CLINICAL:
            for cut in known_spans(phrase, subject):
                word = squeeze(phrase[cut.start : cut.end])
                assert any(distance(word, other, 2) <= 2 for other in own), (phrase, cut)


def test_what_is_left_holds_nothing_that_the_audit_of_the_own_patient_looks_for() -> None:
    makers = fakers()
    for number in range(60):
        known = frozenset(subject_of(makers[number % len(makers)], number))
        subject = terms(known)
        own = matcher(known, vocabulary(), {})
        for one in known:
            text = fold(shown(f"CT {one.value} knee", subject))
            assert not own.automaton.find_matches_as_indexes(text), text


def test_dates_are_read_as_calendar_days_only() -> None:
    subject = terms([Known("date", "20041399"), Known("date", ""), Known("date", "garbage")])

    assert subject.dates == frozenset()


def test_the_spans_are_in_order_and_apart() -> None:
    cuts = known_spans("Smith John 12345678 19.01.2004 Kowalski Hospital O'Brien", SUBJECT)

    assert all(one.end <= other.start for one, other in pairwise(cuts))
    assert [cut.rule for cut in cuts] == [
        "known-name",
        "known-id",
        "known-date",
        "known-institution",
        "known-name",
    ]


def test_nothing_known_cuts_nothing() -> None:
    assert known_spans(f"Smith {date(2004, 1, 19)} 12345678", terms([])) == ()


def test_reprs_show_no_value() -> None:
    known_spans("SMTIH", SUBJECT, noisy=True)

    for thing in (SUBJECT, *SUBJECT.forms, SUBJECT.misspelt, *SUBJECT.blurred()):
        assert not {"smith", "4711", "wilkinson"} & set(squeeze(repr(thing)).split())
        assert "smith" not in repr(thing)


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "a",
            "a-",
            "0",
            "1 ",
            "1.",
            "/a",
            "w.",
            "a@",
            "smith ",
            "smith hospital ",
            "jan 1 ",
            "pt a ",
            "ü",
            "a'",
            "J. ",
            "www.",
        )
    ],
)
@pytest.mark.parametrize("noisy", [False, True])
def test_hostile_texts_take_linear_time(unit: str, noisy: bool) -> None:
    subject = terms(
        [
            *(Known("name", value) for value in ("Smith^John", "Aaaaa^Aaaa")),
            Known("address", "1 A St, Aaaaaa"),
        ]
    )
    text = unit * (40_000 // len(unit))

    began = time.process_time()
    known_spans(text, subject, noisy=noisy)

    assert time.process_time() - began < 3


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=80), noisy=st.booleans())
def test_any_text_is_answered_with_spans_inside_it(text: str, noisy: bool) -> None:
    for cut in known_spans(text, SUBJECT, noisy=noisy):
        assert 0 <= cut.start < cut.end <= len(text)
