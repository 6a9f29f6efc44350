"""Whether the response of a PACS matches the query."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from medsanitize.pipeline.storage.pacs import cfind_cget
from medsanitize.pipeline.storage.pacs.match_keys import Answer, first_ignored_key
from pydicom import Dataset


@pytest.mark.parametrize(
    ("asked", "answer", "key"),
    [
        ({"AccessionNumber": "A1"}, {"AccessionNumber": ("A1 ",)}, None),
        ({"AccessionNumber": "A1"}, {"AccessionNumber": ("A10",)}, "AccessionNumber"),
        ({"AccessionNumber": "A1"}, {}, "AccessionNumber"),
        ({"StudyDate": "20200101-20201231"}, {"StudyDate": ("20200615",)}, None),
        ({"StudyDate": "20200101-"}, {"StudyDate": ("20300615",)}, None),
        ({"StudyDate": "-20200101"}, {"StudyDate": ("20200615",)}, "StudyDate"),
        ({"StudyDate": "20200101"}, {"StudyDate": ("20200102",)}, "StudyDate"),
        ({"StudyDescription": "chest*"}, {"StudyDescription": ("CHEST [2]",)}, None),
        ({"StudyDescription": "*[2]"}, {"StudyDescription": ("CHEST 2",)}, "StudyDescription"),
        ({"ModalitiesInStudy": "CT"}, {"ModalitiesInStudy": ("SR", "CT")}, None),
        ({"StudyDate": "-20200101"}, {"StudyDate": ("",)}, "StudyDate"),
        ({"PatientName": "A*"}, {"PatientName": ()}, "PatientName"),
        ({"PatientName": "DOE^JOHN"}, {"PatientName": ("Doe^John",)}, None),
        ({"PatientName": "DOE^JOHN"}, {"PatientName": ("ROE^JANE",)}, "PatientName"),
        ({"PatientName": "DOE^JOHN"}, {"PatientName": ("DOE^JOHN^Q^DR=DOE",)}, None),
        ({"PatientName": "DOE^JOHN"}, {"PatientName": ("DOE",)}, "PatientName"),
        ({"PatientName": "DOE^"}, {"PatientName": ("DOE^JOHN",)}, None),
        ({"PatientName": "D?E*"}, {"PatientName": ("DOE^JOHN",)}, None),
        ({"PatientName": "D*JOHN"}, {"PatientName": ("DOE^JOHN",)}, None),
        ({"PatientName": "MULLER^*"}, {"PatientName": ("M\u00fcller^Eva",)}, None),
        ({"PatientName": "\u5c71*"}, {"PatientName": ("Yamada^Tarou=\u5c71\u7530^\u592a\u90ce",)}, None),
        ({"PatientName": "=\u5c71*"}, {"PatientName": ("\u5c71\u7530",)}, "PatientName"),
        ({"PatientName": "^"}, {"PatientName": ("DOE^JOHN",)}, "PatientName"),
        ({"PatientName": "="}, {"PatientName": ("DOE^JOHN",)}, "PatientName"),
        ({"StudyTime": "1030"}, {"StudyTime": ("103059.999999",)}, None),
        ({"StudyTime": "1030"}, {"StudyTime": ("10:30:00",)}, None),
        ({"StudyTime": "103000"}, {"StudyTime": ("1030",)}, None),
        ({"StudyTime": "1030"}, {"StudyTime": ("10",)}, "StudyTime"),
        ({"StudyTime": "0000-0100"}, {"StudyTime": ("230000",)}, "StudyTime"),
        ({"StudyTime": "0800-1159"}, {"StudyTime": ("115930.5",)}, None),
        ({"StudyTime": "-0800"}, {"StudyTime": ("080100",)}, "StudyTime"),
        ({"StudyTime": "2200-"}, {"StudyTime": ("2200",)}, None),
        ({"StudyTime": "2200-"}, {"StudyTime": ("",)}, "StudyTime"),
        ({"StudyTime": "1*"}, {"StudyTime": ("103000",)}, "StudyTime"),
        ({"StudyTime": "1000"}, {"StudyTime": ("noon",)}, "StudyTime"),
        ({"StudyDescription": "*"}, {}, None),
    ],
)
def test_a_response_to_another_query_is_detected(
    asked: Mapping[str, str], answer: Answer, key: str | None
) -> None:
    assert first_ignored_key(asked, answer) == key


def test_a_response_contains_a_complete_name() -> None:
    answer = Dataset()
    answer.PatientName, answer.ModalitiesInStudy, answer.StudyTime = "Doe^John", ["CT", "SR"], "1030"
    given = [
        cfind_cget._values(answer, one)
        for one in ("PatientName", "ModalitiesInStudy", "StudyTime", "StudyID")
    ]
    assert given == [("Doe^John",), ("CT", "SR"), ("1030",), ()]
