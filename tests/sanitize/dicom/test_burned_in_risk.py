"""Which pixels are read for text, by what their header states."""

from __future__ import annotations

import pytest
from medsanitize.sanitize.dicom.burned_in_risk import is_image

PARAMETRIC_MAP, LABEL_MAP = "1.2.840.10008.5.1.4.1.1.30", "1.2.840.10008.5.1.4.1.1.66.7"
RT_DOSE, RAW_DATA = "1.2.840.10008.5.1.4.1.1.481.2", "1.2.840.10008.5.1.4.1.1.66"


@pytest.mark.parametrize(
    ("sop_class", "more"),
    [
        (PARAMETRIC_MAP, {"PhotometricInterpretation": "MONOCHROME2"}),
        (LABEL_MAP, {"PhotometricInterpretation": "PALETTE COLOR"}),
        (RT_DOSE, {}),
    ],
)
def test_computed_values_are_no_image(sop_class: str, more: dict[str, str]) -> None:
    assert not is_image({"SOPClassUID": sop_class, **more})


@pytest.mark.parametrize(
    ("sop_class", "more"),
    [
        (RAW_DATA, {"PhotometricInterpretation": "RGB"}),
        (RT_DOSE, {"PhotometricInterpretation": "YBR_FULL_422"}),
        (PARAMETRIC_MAP, {"ConversionType": "WSD"}),
        (LABEL_MAP, {"BurnedInAnnotation": "YES"}),
    ],
)
def test_a_capture_is_an_image_whatever_its_class(sop_class: str, more: dict[str, str]) -> None:
    assert is_image({"SOPClassUID": sop_class, **more})
