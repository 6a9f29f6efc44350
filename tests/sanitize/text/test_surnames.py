"""Common surnames of many languages in texts of another patient, unknown from any header."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from medsanitize.sanitize.result import Sanitized
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence

Release = Callable[..., tuple[Sanitized, bytes, Dataset]]
Real = Callable[[str], Dataset]

# ruff: noqa: E501  (one language a paragraph)

SURNAMES = {
    "English": "Smith Johnson Williams Brown Jones Miller Davis Wilson Anderson Taylor Thomas Moore Martin Jackson "
    "Thompson White Harris Clark Lewis Robinson Walker Young Allen King Wright Scott Hill Green Adams Baker Nelson "
    "Campbell Mitchell Roberts Carter Phillips Evans Turner Parker Collins Edwards Stewart Morris Murphy Cook Rogers",
    "German": "Müller Schmidt Schneider Fischer Weber Meyer Wagner Becker Schulz Hoffmann Schäfer Koch Bauer Richter "
    "Klein Wolf Schröder Neumann Schwarz Zimmermann Braun Krüger Hofmann Hartmann Lange Krause Lehmann Weiß Groß",
    "French": "Martin Bernard Dubois Durand Robert Richard Petit Moreau Simon Laurent Lefebvre Leroy Roux Fournier "
    "Girard Bonnet Dupont Lambert Rousseau Blanc Guérin Muller Henry Perrin Chevalier Legrand Garnier",
    "Spanish": "García González Rodríguez Fernández López Martínez Sánchez Pérez Gómez Jiménez Ruiz Hernández Díaz "
    "Moreno Muñoz Álvarez Romero Alonso Gutiérrez Navarro Torres Domínguez Vázquez Ramos Castillo Blanco Delgado",
    "Italian": "Rossi Russo Ferrari Esposito Bianchi Romano Colombo Ricci Marino Greco Bruno Gallo Conti Costa Giordano",
    "Portuguese": "Silva Santos Ferreira Pereira Oliveira Costa Rodrigues Martins Sousa Gonçalves Almeida Ribeiro",
    "Dutch": "Jansen Bakker Visser Smit Meijer Mulder Bos Vos Peters Hendriks Dekker Brouwer Kok Jacobs Vermeulen",
    "Polish": "Nowak Kowalski Wiśniewski Wójcik Kowalczyk Kamiński Lewandowski Zieliński Szymański Woźniak Dąbrowski",
    "Nordic": "Hansen Johansen Olsen Larsen Andersen Nilsson Eriksson Karlsson Persson Svensson Korhonen Virtanen",
    "Turkish": "Yılmaz Kaya Demir Çelik Şahin Yıldız Öztürk Aydın Arslan Doğan Kılıç Aslan Çetin Koç Kurt",
    "Russian": "Ivanov Smirnov Kuznetsov Popov Vasiliev Иванов Смирнов Кузнецов Попов Васильев Петров Соколов",
    "Indian": "Patel Sharma Singh Kumar Gupta Khan Reddy Shah Mehta Iyer Nair Joshi Chowdhury Banerjee Mukherjee",
    "Chinese": "Wang Zhang Chen Yang Huang Zhao Zhou Liu 王 李 张 刘 陈 杨 黄 赵 王伟 李娜",
    "Japanese": "Sato Suzuki Takahashi Tanaka Watanabe Ito Yamamoto Nakamura Kobayashi 佐藤 鈴木 高橋 田中",
    "Korean": "Kim Park Choi Jung Kang Cho Yoon Jang 김 이 박 최 정",
    "Arabic": "Mohamed Ahmed Hassan Ibrahim Mahmoud Hussein Abdullah محمد أحمد علي حسن",
    "Greek": "Papadopoulos Georgiou Παπαδόπουλος Γεωργίου",
    "Vietnamese": "Nguyễn Trần Phạm Hoàng Nguyen Tran Pham Hoang",
}
# Surnames that radiology needs as words: kept in another patient's text, removed in their bearer's.
WORDS_TOO = {"Long", "Short", "Small", "Colon", "Branch", "Field", "Block", "Major"}


@pytest.mark.parametrize("language", sorted(SURNAMES))
def test_common_surnames_are_removed(language: str, real: Real, release: Release) -> None:
    names = SURNAMES[language].split()
    data_set = real("CT_small.dcm")
    data_set.SpecificCharacterSet = "ISO_IR 192"
    data_set.StudyDescription = "CHEST " + " ".join(names)
    data_set.SeriesDescription = "CHEST " + " ".join(name.upper() for name in names)
    data_set.ProtocolName = "CHEST_" + "_".join(name.lower() for name in names)
    codes = []
    for name in names:
        code = Dataset()
        code.CodeValue, code.CodingSchemeDesignator, code.CodeMeaning = "1", "99X", name
        codes.append(code)
    data_set.ProcedureCodeSequence = Sequence(codes)

    _, _, out = release(data_set)

    texts = [out.StudyDescription, out.SeriesDescription, out.ProtocolName]
    assert [text.replace("_", " ").split() for text in texts] == [["CHEST"]] * 3
    kept = {code.get("CodeMeaning", "").lower() for code in out.ProcedureCodeSequence}
    assert not kept & {name.lower() for name in names}


@pytest.mark.parametrize("keyword", ["ManufacturerModelName", "Manufacturer", "SoftwareVersions"])
@pytest.mark.parametrize("language", sorted(SURNAMES))
def test_common_surnames_do_not_pass_as_products(
    language: str, keyword: str, real: Real, release: Release
) -> None:
    survivors = []
    for name in SURNAMES[language].split()[:4]:
        data_set = real("CT_small.dcm")
        data_set.SpecificCharacterSet = "ISO_IR 192"
        setattr(data_set, keyword, name)
        _, _, out = release(data_set)
        if str(out.get(keyword, "")) == name:
            survivors.append(name)

    assert survivors == []


@pytest.mark.parametrize("name", sorted(WORDS_TOO))
def test_a_surname_that_is_a_word_is_removed_if_it_is_known(name: str, real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")
    data_set.PatientName = f"{name}^Anna"
    data_set.StudyDescription = f"CHEST {name}"

    _, _, out = release(data_set)

    assert out.StudyDescription == "CHEST"
