"""Texts are read by their escapes and by the character set that was meant."""

from __future__ import annotations

import pytest
from medsanitize.sanitize.formats.dicom.charset import charset_terms, decode_text

NAME = "山田剛志"
KOREAN = "김희중"


@pytest.mark.parametrize(
    "charset",
    [b"", b"ISO_IR 100", b"ISO_IR 192", b"GB18030", b"\\ISO 2022 IR 87", b"\\garbage", b"ISO_IR 144"],
)
@pytest.mark.parametrize(
    "text",
    [
        b"CT \x1b$B;3ED9d;V\x1b(B head",
        b"CT \x1b$@;3ED9d;V\x1b(J head",
        b"CT \x1b(B\x1b$B;3ED\x1b(B\x1b$B9d;V\x1b(B head",
    ],
)
def test_an_escape_says_what_follows_whatever_is_declared(charset: bytes, text: bytes) -> None:
    assert decode_text(text, charset) == f"CT {NAME} head"


@pytest.mark.parametrize("charset", [b"", b"ISO_IR 100", b"\\ISO 2022 IR 149", b"\\garbage"])
def test_korean_after_an_escape_is_read(charset: bytes) -> None:
    text = b"CT \x1b$)C" + KOREAN.encode("euc_kr")

    assert decode_text(text, charset) == f"CT {KOREAN}"


def test_seven_bit_chinese_and_korean_are_read() -> None:
    assert (
        decode_text(b"\x1b$A" + bytes(one & 0x7F for one in "王".encode("gb2312")) + b"\x1b(B", b"") == "王"
    )
    korean = bytes(one & 0x7F for one in KOREAN.encode("euc_kr"))
    assert decode_text(b"\x1b$(C" + korean + b"\x1b(B", b"") == KOREAN


def test_an_escape_within_utf_8_hides_nothing() -> None:
    text = "CT \x1b(BŁuczyńska".encode()

    assert decode_text(text, b"ISO_IR 192") == "CT Łuczyńska"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (b"ISO IR 100", ("ISO_IR 100",)),
        (b"ISO-IR 144", ("ISO_IR 144",)),
        (b"iso_ir 192", ("ISO_IR 192",)),
        (b"UTF-8", ("ISO_IR 192",)),
        (b"\\ISO_2022_IR_87", ("", "ISO 2022 IR 87")),
        (b"ISO 2022 IR 6\\ISO 2022-87", ("ISO 2022 IR 6", "ISO 2022 IR 87")),
        (b"ISO_IR 999", None),
        (b"Quixleyvane", None),
    ],
)
def test_other_spellings_of_a_character_set_are_corrected(
    written: bytes, meant: tuple[str, ...] | None
) -> None:
    assert charset_terms(written) == meant
