"""A subject of whom much is known, sentences to be named in, and people of twelve languages."""

from __future__ import annotations

from faker import Faker
from medsanitize.sanitize.context import Known
from medsanitize.sanitize.text.known_identifiers import Terms, known_spans, terms

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


def shown(text: str, subject: Terms = SUBJECT, *, noisy: bool = False) -> str:
    for cut in reversed(known_spans(text, subject, noisy=noisy)):
        text = f"{text[: cut.start]}[{cut.rule.removeprefix('known-')}]{text[cut.end :]}"
    return text


def fakers() -> list[Faker]:
    made = [Faker(locale) for locale in LOCALES]
    for seed, faker in enumerate(made):
        faker.seed_instance(seed)
    return made


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
