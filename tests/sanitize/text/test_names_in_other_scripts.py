"""Known names are found in texts in another script than that of the header."""

from __future__ import annotations

import pytest
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.text.known_identifiers import compile_terms, find_known_identifiers
from medsanitize.sanitize.text.scripts.romanization import reduced_spellings
from medsanitize.sanitize.text.scripts.transliteration import spells


def cut(name: str, text: str) -> list[str]:
    terms = compile_terms([KnownValue("name", name)])
    return [text[one.start : one.end] for one in find_known_identifiers(text, terms)]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("Moroz^Ivan", "Мороз жалуется на боль", "Мороз"),
        ("Yekaterina^Solovyova", "КТ Соловьёва", "Соловьёва"),
        ("Khrushchev", "Хрущёв, боль", "Хрущёв"),
        ("Hruschtschow", "Хрущёв, боль", "Хрущёв"),
        ("Papadopoulos^Georgios", "Ο Παπαδόπουλος αναφέρει", "Παπαδόπουλος"),
        ("Мороз^Иван", "CT Moroz chest", "Moroz"),
        ("Παπαδόπουλος", "CT PAPADOPOULOS", "PAPADOPOULOS"),
        ("Al-Zahrani^Ahmad", "المريض أحمد الزهراني يشكو", "أحمد الزهراني"),
        ("Alotaibi^Khaled", "محول من خالد العتيبي", "خالد العتيبي"),
        ("Abdunnasir^Omar", "المريض عبد الناصر يشكو", "عبد الناصر"),
        ("عبد الناصر^جمال", "CT Abdunnaser chest", "Abdunnaser"),
        ("الزهراني^أحمد", "CT Ahmed Alzahrani chest", "Ahmed Alzahrani"),
        ("Katz^Oren", "הופנה על ידי אורן כץ", "אורן כץ"),
        ("כהן^רחל", "CT Rachel Cohen", "Rachel Cohen"),
        ("Sharma^Ramesh", "रोगी रमेश शर्मा को", "रमेश शर्मा"),
        ("मुखर्जी^सुनीता", "CT Sunita Mukherjee", "Sunita Mukherjee"),
        ("Wongsawat^Somchai", "ผู้ป่วยสมชาย วงศ์สวัสดิ์ มีอาการ", "สมชาย วงศ์สวัสดิ์"),
        ("วงศ์สวัสดิ์^สมชาย", "CT Wongsawat Somchai", "Wongsawat Somchai"),
        ("Kim^Cheolsu", "환자 김철수는 두통", "김철수"),
        ("Kim^Chul-Soo", "철수가 두통", "철수"),
        ("김철수", "CT Kim Chulsoo", "Kim Chulsoo"),
        ("Wang^Jianguo", "患者王建国主诉", "王建国"),
        ("Hsu^Chih-ming", "患者许志明", "许志明"),
        ("王建国", "CT WANG JIANGUO", "WANG JIANGUO"),
        ("Yamada^Tarou", "山田太郎様 頭痛", "山田太郎"),
        ("Yamada^Taro", "ヤマダ タロウ", "ヤマダ タロウ"),
        ("山田^太郎", "CT Yamada Taroh", "Yamada Taroh"),
        ("Satoh^Ken=佐藤^健=さとう^けん", "サトウ様", "サトウ"),
        ("やまだ^たろう", "ヤマダ", "ヤマダ"),
    ],
)
def test_a_known_name_is_found_in_other_letters(name: str, text: str, found: str) -> None:
    assert found in cut(name, text)


def test_other_words_are_not_found() -> None:
    assert cut("Silva^Maria", "Перелом ребра слева") == []
    assert cut("Мороз", "CT chest mirror") == []
    assert cut("Mori^Akira", "明らかな異常、つもり") == []
    assert cut("Ali^Hassan", "ألم على اليمين") == []
    assert cut("Tomi^Sura", "بعد الطعام") == []


@pytest.mark.parametrize(
    ("name", "word"),
    [("Tomi", "طعام"), ("Peter", "بطارية"), ("Sura", "صورة"), ("Simon", "השמנה"), ("Paula", "पहला")],
)
def test_ordinary_words_that_resemble_a_name_are_kept(name: str, word: str) -> None:
    assert cut(name, word) == []


@pytest.mark.parametrize("spelling", ["mohammed", "muhammad", "mohamad", "mehmed"])
def test_spellings_of_an_arabic_name_are_one_name(spelling: str) -> None:
    assert spells(spelling, "محمد", "arabic")
    assert not spells(spelling, "محمود", "arabic")


def test_spellings_of_one_name_are_reduced_to_one() -> None:
    spellings = ["хрущев", "khrushchev", "hruschtschow", "chruscev"]

    assert set.intersection(*(set(reduced_spellings(one)) for one in spellings))


def test_a_known_name_is_found_although_an_open_list_has_it_as_a_word() -> None:
    assert cut("Inhisar^Ali", "تحسن انحسار الأعراض") == ["انحسار"]
