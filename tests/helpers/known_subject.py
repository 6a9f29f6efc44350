"""A subject with many known identifiers, sentences with names, and people of twelve languages."""

from __future__ import annotations

from faker import Faker
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.text.known_identifiers import KnownTerms, compile_terms, find_known_identifiers

SUBJECT = compile_terms(
    [
        KnownValue("name", "Smith^John^Adam"),
        KnownValue("name", "O'Brien^Siobhán"),
        KnownValue("name", "Müller-Lüdenscheidt^Jörg"),
        KnownValue("name", "Sørensen^Åse"),
        KnownValue("name", "Yamada^Taro=山田^太郎"),
        KnownValue("name", "van der Berg^Li"),
        KnownValue("id", "MR12345678"),
        KnownValue("id", "CT1"),
        KnownValue("id", "0004711"),
        KnownValue("id", "AB-771-23"),
        KnownValue("date", "20040119"),
        KnownValue("date", "19510430120000"),
        KnownValue("address", "4323 Wilkinson Avenue, Springfield 12345"),
        KnownValue("phone", "(217) 555-1234"),
        KnownValue("phone", "+49 89 5559876"),
        KnownValue("institution", "Kowalski Memorial Hospital"),
        KnownValue("label", "Sergeant 55512"),
        KnownValue("uid", "1.2.840.99999.1.2.3.4"),
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


def mark_identifiers(text: str, subject: KnownTerms = SUBJECT, *, noisy: bool = False) -> str:
    for cut in reversed(find_known_identifiers(text, subject, noisy=noisy)):
        text = f"{text[: cut.start]}[{cut.rule.removeprefix('known-')}]{text[cut.end :]}"
    return text


def fakers() -> list[Faker]:
    made = [Faker(locale) for locale in LOCALES]
    for seed, faker in enumerate(made):
        faker.seed_instance(seed)
    return made


def subject_of(faker: Faker, number: int) -> list[KnownValue]:
    return [
        *(KnownValue("name", f"{faker.last_name()}^{faker.first_name()}") for _ in range(5)),
        *(
            KnownValue("id", f"MR{faker.random_int(10**7, 10**8)}"),
            KnownValue("id", str(faker.random_int(1000, 99999))),
        ),
        *(KnownValue("date", faker.date("%Y%m%d")) for _ in range(3)),
        *(
            KnownValue("address", faker.address().replace("\n", ", ")),
            KnownValue("phone", faker.phone_number()),
        ),
        *(
            KnownValue("institution", f"{faker.last_name()} Memorial Hospital"),
            KnownValue("label", f"STATION{number}"),
        ),
    ]
