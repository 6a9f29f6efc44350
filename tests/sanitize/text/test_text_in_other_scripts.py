"""Cleaned texts in scripts other than Latin: clinical words stay, names, places, dates and numbers do not."""

from __future__ import annotations

import pytest
from medsanitize.policies.model import TextSection
from medsanitize.policies.tables.script_words import fold_script
from medsanitize.sanitize.text.cleaner import TextCleaner
from medsanitize.sanitize.text.known_identifiers import compile_terms
from medsanitize.sanitize.text.scripts.characters import with_ascii_signs
from medsanitize.sanitize.text.scripts.segmentation import split_run

CLEANER = TextCleaner(TextSection(action="clean"))
NOBODY = compile_terms([])


def clean(text: str) -> str:
    return CLEANER.clean(text, NOBODY).text


@pytest.mark.parametrize(
    "text",
    [
        "Перелом шейки левой бедренной кости со смещением отломков",
        "ПЛЕВРАЛЬНЫЙ ВЫПОТ СПРАВА",
        "Κάταγμα του αυχένα του αριστερού μηριαίου με παρεκτόπιση",
        "ΑΞΟΝΙΚΗ ΤΟΜΟΓΡΑΦΙΑ ΘΩΡΑΚΟΣ",
        "كسر في عنق عظم الفخذ الأيسر مع تبدل في الموضع",
        "שבר בצוואר הירך השמאלית עם תזוזה",
        'קשרית בקוטר 12 מ"מ',
        "बाएं कूल्हे की हड्डी का फ्रैक्चर",
        "กระดูกต้นขาซ้ายหักและเคลื่อน",
        "左股骨颈骨折伴移位，直径约120 mm。",
        "左大腿骨頸部骨折、転位あり",
        "胆嚢内に最大8 mmの結石を認める。",
        "좌측 대퇴골 경부 골절은 뚜렷하지 않음",
        "Цистоуретрография, признаков рефлюкса нет",
        "Οπισθοπεριτοναϊκοί λεμφαδένες",
        "HER2 отрицательный, Ki-67 около 15 %",
        "尋常性白癬の疑い",
    ],
)
def test_clinical_words_are_kept(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Пациент Кораблёв Сергей жалуется на боль", "Пациент жалуется на боль"),
        ("Боль слева, Мороз А. В. выполнил снимок", "Боль слева, выполнил снимок"),
        ("Направлен Соловьём на КТ", "Направлен на КТ"),
        ("Ο ασθενής Παπαγεωργίου αναφέρει πόνο", "Ο ασθενής αναφέρει πόνο"),
        ("المريض أحمد الزهراني يشكو من صداع", "المريض يشكو من صداع"),
        ("החולה משה אברהמי מתלונן על כאב", "החולה מתלונן על כאב"),
        ("患者王建国主诉头痛", "患者 主诉头痛"),
        ("患者高强头痛", "患者 头痛"),
        ("佐藤健一様 頭痛", "頭痛"),
        ("환자 김철수 두통", "환자 두통"),
        ("ผู้ป่วย สมชาย วงศ์สวัสดิ์ ปวดศีรษะ", "ผู้ป่วย ปวดศีรษะ"),
        ("มารดา บุญเรือน", "มารดา"),
        ("患者五十嵐は頭痛", "患者 は頭痛"),
        ("上官婉清转来", "转来"),
        ("مستشفى ابن سينا", "مستشفى"),
    ],
)
def test_names_are_removed(text: str, left: str) -> None:
    assert clean(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("渡辺 治 頭痛", "頭痛"),
        ("担当医長谷川康弘が実施", "担当医 が実施"),
        ("患者孔红头痛", "患者 头痛"),
        ("صورة سليم بيروتي صداع", "صورة صداع"),
        ("טלי בן חיים כאב בטן", "כאב בטן"),
        ("सीमा देशपांडे दर्द", "दर्द"),
        ("รวิวาน นักรบ ปวดท้อง", "ปวดท้อง"),
    ],
)
def test_a_name_that_is_a_word_is_removed_next_to_a_name_that_is_none(text: str, left: str) -> None:
    assert clean(text) == left


@pytest.mark.parametrize("name", ["سليم", "배중수씨", "عبد التّواب"])
def test_a_name_by_itself_is_removed_although_it_is_a_word(name: str) -> None:
    assert clean(name) == ""
    assert clean("الكبد سليم") == "الكبد سليم"


@pytest.mark.parametrize(
    "text",
    [
        "高峰先生",
        "이상 님",
        "ФИО: Мороз Лев",
        "姓名：高峰",
        "氏名：さくら",
        "الاسم: سليم",
        "住所：中央区本町3-1",
    ],
)
def test_a_name_of_ordinary_words_is_removed_by_what_stands_next_to_it(text: str) -> None:
    name = text.split("：")[-1].split(":")[-1].replace("先生", "").replace("님", "").strip()

    assert not set(name.split()) & set(clean(text).split())
    assert name not in clean(text)


@pytest.mark.parametrize(
    "date",
    [
        "12 марта 2021 года",
        "12 Μαρτίου 2021",
        "12 مارس 2021",
        "١٢/٠٣/٢٠٢١",
        "12 במרץ 2021",
        "12 मार्च 2021",
        "12 มีนาคม 2564",
        "๑๒ มีนาคม ๒๕๖๔",
        "2021年3月12日",
        "二〇二一年三月十二日",
        "令和3年3月12日",
        "2021년 3월 12일",
        "３月１２日",
    ],
)
def test_dates_are_removed(date: str) -> None:
    assert clean(f"CT {date} MRI") == "CT MRI"


def test_years_of_birth_are_removed_and_durations_kept() -> None:
    assert "1949" not in clean("Пациентка 1949 года рождения")
    assert "1949" not in clean("女性，生于1949年")
    assert "1949" not in clean("السيدة من مواليد 1949")
    assert clean("Наблюдается 12 лет") == "Наблюдается 12 лет"


def test_a_function_word_next_to_an_unknown_word_is_no_name() -> None:
    assert clean("كسر في زغبطوش") == "كسر في"


@pytest.mark.parametrize(
    "number", ["病历号48213219", "电话13912345678", "カルテ番号 48213-21", "№ 48213/21", "رقم ٤٨٢١٣٢١٩"]
)
def test_numbers_are_removed(number: str) -> None:
    assert not any(char.isdigit() for char in clean(number))


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("Больница № 40, боль", "40"),
        ("上海市第六人民医院 胸部CT", "第六"),
        ("札幌厚生病院 胸部CT", "札幌"),
        ("서울대학교병원 흉부 CT", "서울"),
        ("โรงพยาบาลศิริราช ปวดท้อง", "ศิริราช"),
        ("Γενικό Νοσοκομείο Λάρισας", "Λάρισας"),
    ],
)
def test_institutions_are_removed(text: str, gone: str) -> None:
    assert gone not in clean(text)


def test_ages_over_89_are_removed_and_others_kept() -> None:
    assert clean("65岁女性") == "65岁女性"
    assert "92" not in clean("92岁女性")
    assert "92" not in clean("Пациентка 92 лет")


def test_a_line_of_an_image_with_a_name_of_single_characters_identifies() -> None:
    assert CLEANER.identifying("王 伟", NOBODY, noisy=True)
    assert CLEANER.identifying("王建国", NOBODY, noisy=True)
    assert not CLEANER.identifying("胸部 左", NOBODY, noisy=True)


def test_unspaced_runs_are_divided_by_the_vocabulary_and_unknown_parts_stay_whole() -> None:
    def parts(run: str) -> list[str]:
        return [run[start:end] for start, end in split_run(run)]

    assert parts("左股骨颈骨折") == ["左", "股骨颈", "骨折"]
    assert parts("T2強調像") == ["T2", "強調像"]
    assert parts("患者王建国") == ["患者", "王建国"]


def test_spellings_of_one_word_are_folded() -> None:
    assert fold_script("Πνεύμονας") == fold_script("ΠΝΕΥΜΟΝΑΣ")
    assert fold_script("лёгкое") == fold_script("легкое")
    assert fold_script("أشعة") == fold_script("اشعه")


def test_digits_and_punctuation_become_ascii_at_the_same_places() -> None:
    text = "٢٠٢١،ＣＴ１２。"

    assert with_ascii_signs(text) == "2021,CT12."
    assert len(with_ascii_signs(text)) == len(text)


@pytest.mark.parametrize(
    "text",
    [
        "Ο ασθενής παραπονέθηκε για εμβοές που υποχώρησαν",
        "علاج المريض باستخدام الأدوية",
        "הממצא נסרק היום",
        "मरीज की शिकायतें दवाइयों से कम",
        "약물을 이용하여 통증을 조절하였으며 증상이 호전되었다",
        "术前停用抗凝药，已用钢板内固定",
    ],
)
def test_words_in_use_are_kept_in_a_sentence(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize("text", ["انحسار", "د. انحسار", "דר נסרק"])
def test_a_word_in_use_is_cut_alone_and_after_a_title(text: str) -> None:
    assert text.split()[-1] not in clean(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("患者東雲 久美子様、腹部造影CT", "患者様、腹部造影CT"),
        ("患者東雲様の検査", "患者様の検査"),
    ],
)
def test_a_japanese_name_that_is_a_word_goes_before_a_title(text: str, left: str) -> None:
    cleaned = TextCleaner(TextSection(action="clean")).clean(text, compile_terms([])).text
    assert cleaned.replace(" ", "") == left
