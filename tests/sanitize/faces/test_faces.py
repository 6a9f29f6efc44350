"""Faces: found in heads of any contrast, plane and size, not elsewhere, and absent after defacing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
import pydicom
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.policies.model import Limits, Policy
from medsanitize.sanitize.context import Context, FaceCut, FaceVerdict, SeriesFace, cut_from_json, cut_to_json
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.faces.deface import pixels_to_blank, relief_correlation, removes_face
from medsanitize.sanitize.faces.detect import detect_face, first_hits, segment_tissue
from medsanitize.sanitize.faces.read_header import read_slice
from medsanitize.sanitize.faces.series import assess_series
from medsanitize.sanitize.faces.slice_geometry import Plane, could_show_face, read_plane, sort_into_stacks
from medsanitize.sanitize.faces.volume import Volume, coarse_volume
from medsanitize.sanitize.pseudonyms import SubKeys
from medsanitize.sanitize.result import CheckResult, Outcome, Sanitized

from tests.helpers import phantoms
from tests.helpers.phantoms import AXIAL, BRAIN, CORONAL, SAGITTAL, Scan, head, points_of
from tests.helpers.released_bytes import released_bytes

HEAD = Scan(head())
MR = Scan(head(), modality="MR")
WHOLE = Scan(phantoms.whole_body(), view=480, pixel=8, cover=900, gap=8, center=(0, 0, -310))
Loader = Callable[[Any], bytes]


@cache
def judged(scan: Scan, *, elsewhere: bool = False, modality: str = "") -> SeriesFace:
    planes = scan.planes()
    return assess_series(
        planes,
        lambda i: scan.image(planes[i]),
        modality or scan.modality,
        elsewhere=elsewhere,
        cutting=True,
    )


@cache
def volume_of(scan: Scan) -> Volume:
    planes = scan.planes()
    rising = [planes[i] for i in sort_into_stacks(planes)[0]]
    return coarse_volume(rising, lambda i: scan.image(rising[i]))


SHOWN = {
    "axial CT": HEAD,
    "sagittal CT": replace(HEAD, orientation=SAGITTAL, cover=180.0),
    "coronal CT": replace(HEAD, orientation=CORONAL),
    "thick slices": replace(HEAD, gap=8.0),
    "coarse pixels": replace(HEAD, pixel=4.0),
    "an infant": Scan(head(0.6), view=180, cover=170, center=(0, 0, -25)),
    "a large man": Scan(head(1.12), view=300, cover=310),
    "turned to the side": Scan(head(yaw=25)),
    "chin up": Scan(head(pitch=14)),
    "chin down": Scan(head(pitch=-14)),
    "axial MR": MR,
    "sagittal MR": replace(MR, orientation=SAGITTAL, cover=180.0),
    "coronal MR": replace(MR, orientation=CORONAL),
    "whole body, arms raised": WHOLE,
}
FACELESS = {
    "three slices": replace(HEAD, gap=20.0, cover=60.0),
    "above the orbits": replace(HEAD, center=(0.0, 0.0, 50.0), cover=110.0),
    "a slab above the orbits": replace(HEAD, center=(0.0, 0.0, 30.0), cover=60.0),
    "above the orbits in MR": replace(MR, center=(0.0, 0.0, 50.0), cover=110.0),
    "no skin in view": replace(HEAD, view=100.0, center=(0.0, 20.0, -40.0), cover=200.0),
    "an ear": replace(HEAD, view=90.0, center=(50.0, 10.0, -40.0), cover=60.0),
    "a brain by itself": Scan(phantoms.brain(), modality="MR", noise=0),
    "a brain by itself, sagittal": Scan(
        phantoms.brain(), modality="MR", noise=0, orientation=SAGITTAL, cover=180
    ),
    "a trunk": Scan(phantoms.torso(), view=400, pixel=4, cover=300, gap=5),
    "a trunk in MR": Scan(phantoms.torso(), modality="MR", view=400, pixel=4, cover=300, gap=5),
    "a child's trunk": Scan(phantoms.torso(85, 60), view=240, cover=200),
    "a ring of bone": Scan(phantoms.pelvis(), view=400, pixel=4, cover=200),
    "two legs": Scan(phantoms.legs(), view=400, pixel=4),
    "two legs in MR": Scan(phantoms.legs(), modality="MR", view=400, pixel=4),
    "a leg": Scan(phantoms.legs(1), view=200),
    "neck and shoulders": Scan(head(), center=(0, 0, -220), cover=150, view=400, pixel=4),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_head_with_a_face_is_detected(name: str) -> None:
    assert judged(SHOWN[name]).verdict == "possible"


@pytest.mark.parametrize("name", FACELESS)
def test_a_volume_without_a_face_in_view_shows_none(name: str) -> None:
    assert judged(FACELESS[name]).verdict == "none"


@settings(max_examples=8, deadline=None)
@given(
    turn=st.tuples(*[st.floats(-40, 40)] * 3),
    base=st.sampled_from([AXIAL, SAGITTAL, CORONAL]),
    modality=st.sampled_from(["CT", "MR"]),
    gap=st.sampled_from([3.0, 5.0, 7.0]),
)
def test_a_face_is_found_and_removed_in_any_plane(
    turn: tuple[float, float, float], base: Any, modality: str, gap: float
) -> None:
    across, down = (tuple(float(x) for x in turned(axis, turn)) for axis in base)
    scan = Scan(head(), modality, (across, down), cover=300, view=300, pixel=4, gap=gap)  # type: ignore[arg-type]
    assert judged(scan).verdict in ("possible", "uncut")


def turned(axis: tuple[float, float, float], degrees: tuple[float, float, float]) -> npt.NDArray[Any]:
    a, b, c = np.radians(degrees)
    x = np.array([[1, 0, 0], [0, np.cos(a), -np.sin(a)], [0, np.sin(a), np.cos(a)]])
    y = np.array([[np.cos(b), 0, np.sin(b)], [0, 1, 0], [-np.sin(b), 0, np.cos(b)]])
    z = np.array([[np.cos(c), -np.sin(c), 0], [np.sin(c), np.cos(c), 0], [0, 0, 1]])
    return np.asarray(x @ y @ z @ np.array(axis))


# -- in doubt -----------------------------------------------------------------------------


def test_an_uncertain_volume_is_treated_as_showing_a_face() -> None:
    assert judged(Scan(phantoms.legs(1), modality="MR", view=200)).verdict != "none"


def test_an_uncertain_volume_is_decided_by_the_header() -> None:
    assert judged(Scan(phantoms.legs(1), modality="MR", view=200), elsewhere=True).verdict == "none"


def test_the_header_does_not_override_an_evident_face() -> None:
    assert judged(HEAD, elsewhere=True).verdict == "possible"


def test_a_ct_without_rescale_is_checked_like_any_other() -> None:
    unscaled = replace(HEAD)
    planes = unscaled.planes()
    face = assess_series(
        planes, lambda i: unscaled.image(planes[i]) + 1024, "MR", elsewhere=False, cutting=True
    )
    assert face.verdict == "possible"


def test_slices_without_a_position_are_treated_as_showing_a_face() -> None:
    face = assess_series([None] * 20, lambda _: np.zeros((8, 8)), "CT", elsewhere=False, cutting=True)
    assert face.verdict == "uncut"


def test_slices_spanning_more_than_a_body_are_treated_as_showing_a_face() -> None:
    far = [replace_position(plane, 40.0 * i) for i, plane in enumerate(HEAD.planes())]
    wide = [Plane(p.position, p.across, p.down, (90.0, 90.0), p.rows, p.columns) for p in HEAD.planes()]
    assert not could_show_face(far)
    face = assess_series(wide, lambda _: np.zeros((128, 128)), "CT", elsewhere=False, cutting=True)
    assert face.verdict == "uncut"


def replace_position(plane: Plane, z: float) -> Plane:
    return replace(plane, position=(plane.position[0], plane.position[1], z))


# -- geometry -----------------------------------------------------------------------------


def test_slices_at_one_position_form_separate_stacks() -> None:
    planes = HEAD.planes()
    found = sort_into_stacks([*planes, *planes, *replace(HEAD, orientation=SAGITTAL, cover=60.0).planes()])
    assert sorted(len(stack) for stack in found) == sorted([len(planes), len(planes), 12])


def test_a_second_echo_is_checked_as_well() -> None:
    planes = replace(HEAD, gap=6.0, pixel=4.0).planes()
    empty = np.full((64, 64), -1000.0)
    face = assess_series(
        [*planes, *planes],
        lambda i: empty if i < len(planes) else HEAD.image(planes[i - len(planes)]),
        "CT",
        elsewhere=False,
        cutting=False,
    )
    assert face.verdict == "possible"


@pytest.mark.parametrize(
    "values",
    [
        ([], [1, 0, 0, 0, 1, 0], [1, 1]),
        ([0, 0, 0], [1, 0, 0], [1, 1]),
        ([0, 0, 0], [1, 0, 0, 0, 1, 0], [0, 0]),
        ([0, 0, 0], [0, 0, 0, 0, 1, 0], [1, 1]),
        ([0, 0, 0], [1, 0, 0, 1, 0, 0], [1, 1]),
        ([float("nan"), 0, 0], [1, 0, 0, 0, 1, 0], [1, 1]),
        ([1e9, 0, 0], [1, 0, 0, 0, 1, 0], [1, 1]),
    ],
)
def test_degenerate_orientations_are_not_a_plane(values: tuple[list[float], ...]) -> None:
    assert read_plane(*values, 8, 8) is None


# -- the cut ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHOWN)
def test_no_facial_skin_remains_after_defacing(name: str) -> None:
    scan = SHOWN[name]
    face = judged(scan)
    volume = volume_of(scan)
    tissue = segment_tissue(volume, scan.modality)
    seen = detect_face(volume, scan.modality)
    assert seen.head is not None
    assert any(removes_face(volume, tissue, seen.head, cut) for cut in face.cuts)


@pytest.mark.parametrize("scan", [HEAD, MR, replace(HEAD, orientation=SAGITTAL, cover=180.0)])
def test_defacing_preserves_the_brain(scan: Scan) -> None:
    face = judged(scan)
    lost = whole = 0
    for plane in scan.planes():
        labels = scan.body(points_of(plane))
        mask = pixels_to_blank(face.cuts, plane)
        whole += int((labels == BRAIN).sum())
        lost += 0 if mask is None else int(((labels == BRAIN) & mask).sum())
    assert lost < 0.02 * whole


def test_the_nose_causes_no_step_in_the_defaced_surface() -> None:
    volume = volume_of(HEAD)
    tissue = segment_tissue(volume, "CT")
    gone = np.zeros_like(tissue)
    cuts = judged(HEAD).cuts
    for i in range(tissue.shape[0]):
        position = (volume.left, volume.front, volume.top - 4.0 * i)
        mask = pixels_to_blank(cuts, Plane(position, *AXIAL, (4.0, 4.0), *tissue.shape[1:]))
        gone[i] = False if mask is None else mask
    before, after = first_hits(tissue), first_hits(tissue & ~gone)
    nose = np.zeros_like(before, bool)
    nose[30:44, 24:40] = True
    assert relief_correlation(before, before, nose) > 0.99
    assert abs(relief_correlation(before, after, nose)) < 0.2


def test_an_ineffective_defacing_is_not_accepted() -> None:
    volume = volume_of(HEAD)
    tissue, seen = segment_tissue(volume, "CT"), detect_face(volume, "CT")
    assert seen.head is not None
    shallow = replace(judged(HEAD).cuts[0], depths=((None,),))
    following = np.array(judged(HEAD).cuts[0].depths, float) - 20.0
    near = replace(shallow, depths=tuple(tuple(None if np.isnan(x) else x for x in row) for row in following))
    assert not removes_face(volume, tissue, seen.head, shallow)
    assert not removes_face(volume, tissue, seen.head, near)


def test_defacing_changes_only_its_blocks() -> None:
    cut = FaceCut(0.0, 0.0, 10.0, ((5.0, None),))
    plane = Plane((-10.0, -10.0, -5.0), *AXIAL, (1.0, 1.0), 40, 40)
    mask = pixels_to_blank([cut], plane)
    assert mask is not None
    assert mask.sum() == 10 * 15
    assert mask[:15, 10:20].all()


def test_a_slice_without_a_defaced_region_is_unchanged() -> None:
    cut = FaceCut(0.0, 0.0, 10.0, ((5.0, None),))
    assert pixels_to_blank([cut], Plane((-10.0, -10.0, 5.0), *AXIAL, (1.0, 1.0), 40, 40)) is None


def test_a_deface_mask_round_trips_through_the_state() -> None:
    cut = judged(replace(HEAD, pixel=4.0)).cuts[0]
    assert cut_from_json(cut_to_json(cut)) == cut


# -- one object ---------------------------------------------------------------------------


def sanitized(
    data: bytes, policy: Policy, subkeys: SubKeys, face: SeriesFace | None
) -> tuple[Sanitized, pydicom.Dataset | None]:
    done = DicomSanitizer(policy, subkeys)(data, Context("id:one", "key", face=face))
    whole = released_bytes(done, data)
    return done, pydicom.dcmread(BytesIO(whole)) if whole else None


def strict(make_policy: Callable[..., Policy], faces: str) -> Policy:
    options = {"clean_pixel_data": False}
    return make_policy("research", dicom={"options": options}, pixels={"at_risk": "release", "faces": faces})


@pytest.mark.parametrize(
    ("faces", "verdict", "expected"),
    [
        ("ignore", "possible", (CheckResult.NOT_RUN, None)),
        ("flag", "possible", (CheckResult.FLAGGED, "YES")),
        ("flag", "none", (CheckResult.PASSED, "NO")),
        ("flag", "projection", (CheckResult.NOT_APPLICABLE, None)),
        ("flag", None, (CheckResult.NOT_RUN, None)),
        ("quarantine", "possible", "recognizable-face"),
        ("quarantine", "none", (CheckResult.PASSED, "NO")),
        ("quarantine", None, "face-not-looked-for"),
        ("deface", "uncut", "face-not-removed"),
        ("deface", "possible", "face-not-removed"),
        ("deface", "none", (CheckResult.PASSED, "NO")),
    ],
)
def test_the_policy_determines_the_outcome_of_a_head(
    make_policy: Callable[..., Policy],
    subkeys: SubKeys,
    load_bytes: Loader,
    faces: str,
    verdict: FaceVerdict | None,
    expected: str | tuple[CheckResult, str | None],
) -> None:
    face = None if verdict is None else SeriesFace(verdict)
    done, out = sanitized(load_bytes("CT_small.dcm"), strict(make_policy, faces), subkeys, face)
    if isinstance(expected, str):
        assert [finding.rule for finding in done.record.findings] == [expected]
        assert done.record.outcome is Outcome.QUARANTINED
    else:
        assert out is not None
        assert (done.record.faces, out.get("RecognizableVisualFeatures")) == expected


@pytest.mark.parametrize(("faces", "outcome"), [("flag", "released"), ("quarantine", "quarantined")])
def test_a_photograph_of_a_person_is_never_declared_clean(
    make_policy: Callable[..., Policy],
    subkeys: SubKeys,
    real: Callable[[str], pydicom.Dataset],
    load_bytes: Loader,
    faces: str,
    outcome: str,
) -> None:
    data = real("SC_rgb_small_odd.dcm")
    data.SOPClassUID = data.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.77.1.4"
    data.Modality = "XC"
    done, _ = sanitized(load_bytes(data), strict(make_policy, faces), subkeys, None)
    assert done.record.outcome == outcome
    assert [finding.rule for finding in done.record.findings] == ["photograph-of-person"]


def test_an_object_without_people_needs_no_check(
    make_policy: Callable[..., Policy], subkeys: SubKeys, load_bytes: Loader
) -> None:
    done, _ = sanitized(load_bytes("rtdose.dcm"), strict(make_policy, "quarantine"), subkeys, None)
    assert done.record.faces is CheckResult.NOT_APPLICABLE


# A deface region that meets a corner of CT_small.dcm.
WHERE = FaceCut(-158.2, -60.0, 16.0, ((-160.0, -160.0, None),) * 4)


def corner(data: pydicom.Dataset) -> FaceCut:
    x, y, z = (float(part) for part in data.ImagePositionPatient)
    return FaceCut(x - 1, z + 8, 16.0, ((y + 10.0, None),))


@pytest.mark.parametrize("syntax", ["1.2.840.10008.1.2.1", "1.2.840.10008.1.2.5", "1.2.840.10008.1.2.4.90"])
def test_defacing_sets_only_its_pixels_to_air(
    make_policy: Callable[..., Policy],
    subkeys: SubKeys,
    real: Callable[[str], pydicom.Dataset],
    load_bytes: Loader,
    syntax: str,
) -> None:
    data = real("CT_small.dcm")
    before = data.pixel_array * data.RescaleSlope + data.RescaleIntercept
    cut = corner(data)
    if syntax != "1.2.840.10008.1.2.1":
        data.compress(syntax, generate_instance_uid=False)
    face = SeriesFace("possible", (cut,))
    done, out = sanitized(load_bytes(data), strict(make_policy, "deface"), subkeys, face)
    assert out is not None, done.record.findings
    after = out.pixel_array * out.RescaleSlope + out.RescaleIntercept
    changed = before != after
    assert out.file_meta.TransferSyntaxUID == syntax
    assert set(after[changed]) == {-1000}
    assert changed.sum() > 300
    assert not changed[17:].any()
    assert not changed[:, 26:].any()


def test_defacing_is_stated_and_counted(
    make_policy: Callable[..., Policy],
    subkeys: SubKeys,
    real: Callable[[str], pydicom.Dataset],
    load_bytes: Loader,
) -> None:
    data = real("CT_small.dcm")
    face = SeriesFace("possible", (corner(data),))
    done, out = sanitized(load_bytes(data), strict(make_policy, "deface"), subkeys, face)
    assert out is not None
    assert done.record.rules["face-defaced"] == 1
    assert (done.record.faces, out.RecognizableVisualFeatures) == (CheckResult.PASSED, "NO")
    assert "113102" in [item.CodeValue for item in out.DeidentificationMethodCodeSequence]


def test_a_slice_next_to_the_defaced_region_states_no_defacing(
    make_policy: Callable[..., Policy],
    subkeys: SubKeys,
    real: Callable[[str], pydicom.Dataset],
    load_bytes: Loader,
) -> None:
    data = real("CT_small.dcm")
    cut = replace(corner(data), top=float(data.ImagePositionPatient[2]) - 50)
    done, out = sanitized(
        load_bytes(data), strict(make_policy, "deface"), subkeys, SeriesFace("possible", (cut,))
    )
    assert out is not None
    assert "face-defaced" not in done.record.rules
    assert "113102" not in [item.CodeValue for item in out.DeidentificationMethodCodeSequence]
    assert np.array_equal(out.pixel_array, data.pixel_array)


@pytest.fixture
def lossy(real: Callable[[str], pydicom.Dataset]) -> pydicom.Dataset:
    """A lossy JPEG 2000 slice, changed to a CT with a position."""
    data = real("JPEG2000.dcm")
    data.SOPClassUID = data.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.2"
    data.Modality, data.ImageType = "CT", ["ORIGINAL", "PRIMARY", "AXIAL"]
    data.ImagePositionPatient, data.ImageOrientationPatient = [0, 0, 0], [1, 0, 0, 0, 1, 0]
    data.PixelSpacing, data.RescaleSlope, data.RescaleIntercept = [1, 1], 1, -1000
    return data


SQUARE = SeriesFace("possible", (FaceCut(-1.0, 8.0, 16.0, ((50.0,),)),))


def test_a_lossy_slice_is_decompressed_and_defaced(
    make_policy: Callable[..., Policy], subkeys: SubKeys, lossy: pydicom.Dataset, load_bytes: Loader
) -> None:
    before = lossy.pixel_array
    done, out = sanitized(load_bytes(lossy), strict(make_policy, "deface"), subkeys, SQUARE)
    assert out is not None, done.record.findings
    changed = out.pixel_array != before
    assert out.file_meta.TransferSyntaxUID == "1.2.840.10008.1.2.1"
    assert not changed[50:].any()
    assert not changed[:, 15:].any()
    assert set(out.pixel_array[:50, :15].ravel()) == {0}


def test_a_lossy_slice_that_may_not_be_decompressed_is_quarantined(
    make_policy: Callable[..., Policy], subkeys: SubKeys, lossy: pydicom.Dataset, load_bytes: Loader
) -> None:
    policy = make_policy(
        "research",
        dicom={"options": {"clean_pixel_data": False}},
        pixels={"at_risk": "release", "faces": "deface", "lossy": "quarantine"},
    )
    done, _ = sanitized(load_bytes(lossy), policy, subkeys, SQUARE)
    assert [finding.rule for finding in done.record.findings] == ["face-not-removed"]


# -- headers ------------------------------------------------------------------------------


def test_the_header_of_a_slice_gives_its_position(load_bytes: Loader) -> None:
    found = read_slice(load_bytes("CT_small.dcm"), Limits())
    assert found is not None
    assert (found.modality, found.rows, found.columns, found.frames) == ("CT", 128, 128, 1)
    assert [len(group) for group in found.numbers] == [3, 6, 2]


def test_an_object_without_a_volume_is_not_a_slice(load_bytes: Loader) -> None:
    for name in ("SC_rgb_small_odd.dcm", "rtplan.dcm", "waveform_ecg.dcm", "JPEG2000.dcm"):
        assert read_slice(load_bytes(name), Limits()) is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"BodyPartExamined": "ABDOMEN"}, True),
        ({"BodyPartExamined": "ABDOMEN", "StudyDescription": "CT head and abdomen"}, False),
        ({"BodyPartExamined": "", "ProtocolName": "routine_knee"}, True),
        ({"BodyPartExamined": "HEAD"}, False),
        ({"BodyPartExamined": "HEART"}, True),
        (
            {"BodyPartExamined": "", "StudyDescription": "CT", "SeriesDescription": "", "ProtocolName": ""},
            False,
        ),
    ],
)
def test_only_the_name_of_another_body_part_excludes_a_face(
    real: Callable[[str], pydicom.Dataset], load_bytes: Loader, words: dict[str, str], expected: bool
) -> None:
    data = real("CT_small.dcm")
    data.StudyDescription = data.SeriesDescription = data.ProtocolName = ""
    for keyword, value in words.items():
        setattr(data, keyword, value)
    found = read_slice(load_bytes(data), Limits())
    assert found is not None
    assert found.elsewhere is expected
