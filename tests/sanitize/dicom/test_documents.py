"""Encapsulated documents: quarantined, dropped, or a PDF rebuilt from cleaned pictures of its pages."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pypdfium2
import pytest
from medsanitize.policies.model import Policy
from medsanitize.sanitize.formats.pdf import is_pictures_only, render_pdf, write_pdf
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.result import CheckResult, Outcome, Sanitized
from pydicom.dataset import Dataset, FileMetaDataset

pytestmark = pytest.mark.pixels

Sanitize = Callable[..., tuple[Sanitized, bytes]]
Release = Callable[..., tuple[Sanitized, bytes, Dataset]]
MakePolicy = Callable[..., Policy]

NAME = "Grzbowska^Anna"
STORAGE = "1.2.840.10008.5.1.4.1.1."
MOST = 1 << 29


def pdf(*lines: str, extra: str = "", rotate: int = 0, size: tuple[int, int] = (300, 200)) -> bytes:
    """A page of text with title, author, a script run on opening and the name of an attachment."""
    said = "".join(f"({line}) Tj T* " for line in lines)
    content = f"BT /F 12 Tf 20 {size[1] - 30} Td 30 TL {said}ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R /OpenAction << /S /JavaScript /JS (Grzbowska) >> >>",
        "<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {size[0]} {size[1]}] /Rotate {rotate} /Contents 4 0 R "
        "/Resources << /Font << /F 5 0 R >> >> >>",
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        "<< /Author (Grzbowska) /CreationDate (D:19510312) >>",
    ]
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode()
    start = len(out)
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    return (
        out
        + (
            f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
            f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info 6 0 R {extra}>>\n"
            f"startxref\n{start}\n%%EOF\n"
        ).encode()
    )


def encapsulated(document: bytes, sop_class: str = STORAGE + "104.1") -> Dataset:
    made = Dataset()
    made.file_meta = FileMetaDataset()
    made.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.1"
    made.file_meta.MediaStorageSOPClassUID = made.SOPClassUID = sop_class
    made.file_meta.MediaStorageSOPInstanceUID = made.SOPInstanceUID = "1.2.3.4.5"
    made.StudyInstanceUID, made.SeriesInstanceUID = "1.2.3.4", "1.2.3.4.1"
    made.PatientID, made.PatientName = "77-4711", NAME
    made.Modality, made.ConversionType, made.BurnedInAnnotation = "DOC", "SD", "YES"
    made.DocumentTitle = "Report for Grzbowska"
    made.MIMETypeOfEncapsulatedDocument = "application/pdf; name=Grzbowska.pdf"
    made.EncapsulatedDocument = document + b"\0" * (len(document) & 1)
    return made


@pytest.fixture(scope="module")
def rebuild(make_policy: MakePolicy) -> Policy:
    return make_policy("research", documents={"pdf": "rebuild", "other": "drop"})


@pytest.mark.parametrize("sop_class", ["104.1", "104.2", "104.3", "104.4", "104.5", "9.4.1", "9.4.2"])
def test_documents_and_audio_are_quarantined_by_default(
    sop_class: str, sanitize: Sanitize, make_policy: MakePolicy
) -> None:
    done, out = sanitize(encapsulated(pdf("Lung"), STORAGE + sop_class), make_policy("research"))

    assert [finding.rule for finding in done.record.findings] == ["document-or-audio"]
    assert (done.record.outcome, out) == (Outcome.QUARANTINED, b"")


@pytest.mark.parametrize("sop_class", ["104.2", "104.3", "104.4", "104.5", "9.4.1", "9.4.2"])
def test_other_documents_are_dropped_by_a_rule(sop_class: str, sanitize: Sanitize, rebuild: Policy) -> None:
    done, out = sanitize(encapsulated(b"solid", STORAGE + sop_class), rebuild)

    assert [finding.rule for finding in done.record.findings] == ["document"]
    assert (done.record.outcome, out) == (Outcome.DROPPED, b"")


@pytest.fixture(scope="module")
def released(release: Release, rebuild: Policy) -> tuple[Sanitized, bytes, Dataset]:
    """A report of two lines, one with the patient's name, after sanitization."""
    return release(encapsulated(pdf("Grzbowska Anna", "", "", "No pleural effusion")), rebuild)


def test_a_rebuilt_document_contains_only_pictures(released: tuple[Sanitized, bytes, Dataset]) -> None:
    document = released[2].EncapsulatedDocument[: released[2].EncapsulatedDocumentLength]

    with pypdfium2.PdfDocument(document) as opened:
        text = opened[0].get_textpage().get_text_bounded()
        metadata = opened.get_metadata_dict(skip_empty=True)
    assert (text, metadata) == ("", {})
    assert not re.search(rb"/(?:Info|ID|Font|JS|JavaScript|Names|Annots|Metadata|CreationDate)\b", document)


def test_the_name_is_blanked_and_the_finding_is_kept(released: tuple[Sanitized, bytes, Dataset]) -> None:
    before = render_pdf(pdf("Grzbowska Anna", "", "", "No pleural effusion"), MOST)[0].picture
    after = render_pdf(released[2].EncapsulatedDocument, MOST)[0].picture

    rows, columns = np.nonzero(before[:100].min(axis=2) < 128)
    letters = slice(rows.min(), rows.max() + 1), slice(columns.min(), columns.max() + 1)
    assert after[letters].min() == 255  # the paper
    assert np.array_equal(after[210:250], before[210:250])


def test_the_header_describes_the_document(released: tuple[Sanitized, bytes, Dataset]) -> None:
    done, out, data_set = released

    assert b"Grzbowska" not in out
    assert data_set.MIMETypeOfEncapsulatedDocument == "application/pdf"
    assert data_set.BurnedInAnnotation == "NO"
    assert done.record.pixels is CheckResult.PASSED
    assert done.record.pixel_regions_cleaned >= 1


@pytest.mark.parametrize(
    ("document", "rule"),
    [
        (b"%PDF-1.4\nbroken", "document-unreadable"),
        (b"", "document-unreadable"),
        (pdf("Lung")[:150], "document-unreadable"),
        (pdf("Lung", size=(20_000, 20_000)), "document-too-large"),
    ],
)
def test_an_unreadable_document_is_quarantined(
    document: bytes, rule: str, sanitize: Sanitize, rebuild: Policy
) -> None:
    done, _ = sanitize(encapsulated(document), rebuild)

    assert [finding.rule for finding in done.record.findings] == [rule]


def test_an_encrypted_document_is_quarantined() -> None:
    lock = "/Filter /Standard /V 1 /R 2 /P -4 /O <" + "00" * 32 + "> /U <" + "00" * 32 + ">"
    locked = pdf("Lung", extra=f"/Encrypt << {lock} >> /ID [<00> <00>] ")

    with pytest.raises(Quarantined) as refused:
        render_pdf(locked, MOST)

    assert refused.value.rule == "document-encrypted"


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
def test_lines_of_the_text_layer_are_found_at_their_position(rotate: int) -> None:
    (page,) = render_pdf(pdf("Grzbowska", rotate=rotate), MOST)

    (line,) = page.lines
    left, top, right, bottom = line.area
    inside = (page.picture[top:bottom, left:right] < 128).sum()
    assert line.text == "Grzbowska"
    assert inside > 0.9 * (page.picture < 128).sum()


def test_written_pages_reproduce_every_pixel() -> None:
    made = np.random.default_rng(0).integers(0, 255, (120, 81, 3), dtype=np.uint8)
    gray = np.repeat(made[..., :1], 3, axis=2)

    document = write_pdf([made, gray])

    assert is_pictures_only(document, [made, gray])
    assert not is_pictures_only(document, [gray, made])
    assert not is_pictures_only(pdf("Lung"), [render_pdf(pdf("Lung"), MOST)[0].picture])
    assert document == write_pdf([made, gray])


def test_large_pages_are_downsampled_and_too_many_pages_are_quarantined() -> None:
    (page,) = render_pdf(pdf("Lung", size=(5_000, 5_000)), MOST)

    assert page.picture.shape[0] * page.picture.shape[1] < 8_100_000
    with pytest.raises(Quarantined) as refused:
        render_pdf(pdf("Lung"), 1000)
    assert refused.value.rule == "document-too-large"


def test_pixels_in_an_object_without_an_image_are_quarantined(
    real: Callable[[str], Dataset], sanitize: Sanitize
) -> None:
    report = real("reportsi.dcm")
    image = real("CT_small.dcm")
    for keyword in ("Rows", "Columns", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation"):
        setattr(report, keyword, image[keyword].value)
    report.SamplesPerPixel, report.PhotometricInterpretation = 1, "MONOCHROME2"
    report.add_new(0x7FE00010, "OW", image.PixelData)

    done, _ = sanitize(report)

    assert [finding.rule for finding in done.record.findings] == ["pixel-data-astray"]
