"""Explanations by example: ranking, evaluation, command, and invalid input."""

from __future__ import annotations

import hashlib
import json
import math
import re
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.cli import cli
from medsanitize.errors import UsageError
from medsanitize.generators.explain.catalog import CatalogEntry
from medsanitize.generators.explain.explain import ONE_PICTURE, distinct, explain, ranks_of
from medsanitize.generators.explain.explain_embeddings import EmbeddedCatalog, small_picture
from medsanitize.generators.explain.explanation_report import tone_of
from medsanitize.generators.explain.ndcg import dcg, ndcg, ndcg_by_chance
from medsanitize.generators.explain.relevance_judgments import RelevanceJudgments, rank, read_judgments
from medsanitize.generators.phantoms.chest import chest_phantom
from medsanitize.policies.model import Release
from medsanitize.release.build import write_evidence
from medsanitize.release.manifest import ObjectRow, count_patients, write_objects, write_patients
from medsanitize.release.publish import publish
from medsanitize.release.research_index import write_index
from medsanitize.release.summary import Summary
from numpy.typing import NDArray
from PIL import Image


def picture(seed: int) -> Image.Image:
    coarse = np.random.default_rng(seed).integers(0, 200, (6, 6))
    return Image.fromarray(np.kron(coarse, np.ones((16, 16))).astype(np.uint8))


# nDCG


def test_the_gain_is_discounted_by_rank() -> None:
    expected = (2**3 - 1) + (2**2 - 1) / math.log2(3) + (2**1 - 1) / 2
    assert dcg([3, 2, 1], 3) == pytest.approx(expected)
    assert dcg([3, 2, 1], 1) == 7


def test_the_best_order_has_the_maximum_gain() -> None:
    assert ndcg([5.5, 5, 4.5, 4], 3) == 1


def test_the_worse_of_two_orders_has_the_discounted_gain() -> None:
    assert ndcg([0, 1], 2) == pytest.approx(1 / math.log2(3))
    assert ndcg([0, 1], 1) == 0


def test_equal_relevance_makes_every_order_optimal() -> None:
    assert ndcg([2, 2, 2], 2) == ndcg_by_chance([2, 2, 2], 2) == 1


def test_chance_is_the_mean_over_random_orders() -> None:
    relevance = np.arange(1, 6.0, 0.5)
    draw = np.random.default_rng(0)
    mean = np.mean([ndcg(draw.permutation(relevance), 4) for _ in range(4000)])
    assert ndcg_by_chance(relevance, 4) == pytest.approx(mean, abs=0.01)


# Rankings of vectors


def looked(
    vectors: list[list[float]], queries: list[list[float]], alike: list[list[float]]
) -> EmbeddedCatalog:
    entries = tuple(
        CatalogEntry(f"o{place}", f"data/{place}.png", Path(), True, "", 0.001)
        for place in range(len(vectors))
    )
    # Pictures without anything in common, unless a test says otherwise.
    small = np.eye(len(vectors), dtype=np.float32)
    return EmbeddedCatalog(entries, np.float32(vectors), np.float32(queries), np.array(alike), {}, small)


def test_cases_are_sorted_by_distance_with_their_structure_rank() -> None:
    found = explain(looked([[3, 0], [1, 0], [2, 0]], [[0, 0]], [[0.9, 0.1, 0.5]]), 2, "m", "d", None)
    assert [one.object_id for one in found.by_features] == ["o1", "o2"]
    assert [one.distance for one in found.by_features] == [1, 2]
    assert [one.structure_rank for one in found.by_features] == [3, 2]
    assert [one.object_id for one in found.by_structure] == ["o0", "o2"]
    assert found.answers == ()


def test_predictions_for_the_image_and_each_case_are_reported() -> None:
    def probabilities(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.float32([[0.9, 0.1] if one[0] > 1 else [0.2, 0.8] for one in vectors])

    classifier: Any = SimpleNamespace(classes=("sick", "well"), probabilities=probabilities)
    found = explain(looked([[2, 0], [1, 0]], [[0, 0]], [[0.9, 0.1]]), 2, "m", "d", classifier)
    assert [(one.name, round(one.probability, 2)) for one in found.answers] == [("well", 0.8), ("sick", 0.2)]
    assert [one.answer and one.answer.name for one in found.by_features] == ["well", "sick"]
    assert [tone_of(found, one) for one in found.by_features] == ["good", "bad"]


def test_nearly_identical_pictures_are_listed_once_and_counted() -> None:
    embedded = looked([[1, 0], [2, 0], [3, 0], [4, 0]], [[0, 0]], [[0.9, 0.8, 0.7, 0.6]])
    small = np.float32([[1, 0, 0], [1, 0.01, 0], [0, 1, 0], [0, 0, 1]])
    found = explain(replace(embedded, small=small), 2, "m", "d", None)
    assert [(one.object_id, one.rank, one.repeats) for one in found.by_features] == [
        ("o0", 1, 1),
        ("o2", 3, 0),
    ]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(1, 5))
def test_no_picture_is_listed_twice(kinds: list[int], count: int) -> None:
    small = np.eye(4, dtype=np.float32)[kinds]
    shown = distinct(np.arange(len(kinds)), small, count)
    listed = [kinds[place] for place, _ in shown]
    assert listed == list(dict.fromkeys(kinds))[:count]
    assert [1 + repeats for _, repeats in shown] == [kinds.count(kind) for kind in listed]


def test_a_brighter_or_noisier_version_is_the_same_picture_and_another_patient_is_not() -> None:
    one, other = (np.asarray(chest_phantom(patient, 0, size=256), np.float32) for patient in (1, 2))
    noisy = np.clip(one * 0.9 + 0.05 + np.random.default_rng(0).normal(0, 0.04, one.shape), 0, 1)
    small = [small_picture(np.float32(square)) for square in (one, noisy, other)]
    assert small[0] @ small[1] >= ONE_PICTURE > small[0] @ small[2]


def test_equal_distances_keep_the_order_of_the_catalog() -> None:
    assert ranks_of(np.array([2.0, 1, 1, 0])).tolist() == [4, 2, 3, 1]


def test_an_agreeing_ranking_has_ndcg_1_and_its_reverse_less() -> None:
    judged = {f"o{place}": 5.0 - place for place in range(5)}
    vectors = [[float(place)] for place in range(5)]
    found = rank(
        RelevanceJudgments({"a.png": judged}), looked(vectors, [[0.0]], [[1, 2, 3, 4, 5.0]]), "m", "d"
    )
    (at,) = found.at
    assert (at.p, at.features.value) == (4, 1)
    assert at.structure.value == pytest.approx(ndcg([1, 2, 3, 4, 5], 4))


def test_each_image_is_ranked_among_its_judged_objects() -> None:
    vectors = [[float(place)] for place in range(8)]
    first = {f"o{place}": 4.0 - place for place in range(4)}
    second = {f"o{place}": float(place) for place in range(4, 8)}
    both = RelevanceJudgments({"a": first, "b": second})
    found = rank(both, looked(vectors, [[0.0], [9.0]], [[0.0] * 8] * 2), "m", "d")
    assert (found.images, found.judgments) == (2, 8)
    assert found.at[0].features.value == 1


# The table of judgments


def table(folder: Path, *rows: str) -> Path:
    path = folder / "judgments.csv"
    path.write_text("\n".join(["file,object_id,relevance", *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["q.png,o0,1", "q.png,o1,2"], "has 2 judgments"),
        (["q.png,o0,high", "q.png,o1,2"], "row 1 .* not a number"),
        (["q.png,o0,nan"], "row 1 .* not a number"),
        (["q.png,o0,-1"], "row 1 .* not a number"),
        (["q.png,o0,1", "q.png,o0,2"], "Row 2 .* repeats a pair"),
        (["q.png,,1"], "has no image or object"),
        ([f"q.png,o{place},0" for place in range(4)], "No object was judged relevant"),
        ([], "has 0 judgments"),
    ],
)
def test_uninformative_judgments_are_an_error(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_judgments(table(tmp_path, *rows))


def test_missing_judgment_columns_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("file,relevance\na,1\n")
    with pytest.raises(UsageError, match="no column 'object_id'"):
        read_judgments(tmp_path / "t.csv")


# The command


def row_of(number: int, data: bytes, *, synthetic: bool) -> ObjectRow:
    return ObjectRow(
        object_id=f"o{number}",
        path=f"data/S{number:03d}/image.png",
        kind="raster",
        modality="",
        sop_class="",
        transfer_syntax="",
        patient=f"S{number:03d}",
        study=f"2.25.{number}",
        series=f"2.25.{number}",
        instance=f"2.25.{number}",
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        synthetic=synthetic,
        model_digest="5a" * 32 if synthetic else None,
        match_bound=0.001 if synthetic else None,
        synthetic_label="effusion" if synthetic else None,
    )


def make_release(folder: Path, contents: list[bytes], synthetic: Callable[[int], bool]) -> Path:
    """A published release of pictures."""
    staging = folder / ".staging"
    rows = [row_of(number, data, synthetic=synthetic(number)) for number, data in enumerate(contents)]
    for row, data in zip(rows, contents, strict=True):
        (staging / row.path).parent.mkdir(parents=True)
        (staging / row.path).write_bytes(data)
    write_objects(rows, staging, metadata={"policy_digest": "5a" * 32})
    write_patients(count_patients(staging), staging, metadata={"policy_digest": "5a" * 32})
    write_index(iter(()), staging, metadata={"policy_digest": "5a" * 32})
    count = len(rows)
    summary = Summary(
        release=Release(name="catalog", version="1", mode="anonymous"),
        preset="ps3.15-basic",
        policy_digest="5a" * 32,
        tool_version="0.1.0",
        outcomes={"released": count},
        modalities={},
        sop_classes={},
        patients=count,
        studies=count,
        series=count,
        objects=count,
        bytes=sum(row.bytes for row in rows),
        actions={},
        rules={},
        dropped={},
        quarantined={},
        options=(),
        gates=(),
        checks={},
        duplicates_dropped=0,
        tables=(),
    )
    write_evidence(staging, summary, signing_key=None)
    publish(staging, folder, summary)
    return folder


def as_png(seed: int, folder: Path) -> bytes:
    picture(seed).save(folder / "made.png")
    return (folder / "made.png").read_bytes()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog of six synthetic images and two real ones, and an image similar to the fourth."""
    base = tmp_path_factory.mktemp("explain")
    make_release(base / "release", [as_png(seed, base) for seed in range(8)], lambda number: number < 6)
    (base / "scans").mkdir()
    looks = np.asarray(picture(3)).astype(int) + np.random.default_rng(0).integers(0, 20, (96, 96))
    Image.fromarray(looks.astype(np.uint8)).save(base / "scans/secret-name.png")
    return base


def call(place: Path, *arguments: object, image: object = "scans/secret-name.png") -> tuple[int, Any]:
    given = [str(place / str(image)), "--catalog", str(place / "release"), *map(str, arguments), "--json"]
    done = CliRunner().invoke(cli, ["explain", *given])
    assert "Traceback" not in done.output
    return done.exit_code, json.loads(done.stdout.splitlines()[0])


def test_the_most_similar_image_is_first_and_shown(place: Path, tmp_path: Path) -> None:
    code, found = call(place, "--count", 3, "--output", tmp_path / "out")
    assert code == found["exit_code"] == 0
    assert (found["images"], found["synthetic"]) == (6, 6)
    first = found["by_features"][0]
    assert (first["object_id"], first["label"], first["match_bound"]) == ("o3", "effusion", 0.001)
    assert len(found["by_features"]) == len(found["by_structure"]) == 3
    page = (tmp_path / "out/explanation.html").read_text()
    assert page.count('src="data:image/png;base64,') == 7
    assert "Never publish" in page
    assert not re.search(r"url\((?!#)|@import|https?://|<script|<link", page)
    for written in (page, (tmp_path / "out/explanation.json").read_text(), json.dumps(found)):
        assert "secret" not in written
    assert stat.S_IMODE((tmp_path / "out/explanation.html").stat().st_mode) == 0o600


def test_real_images_are_used_on_request(place: Path) -> None:
    _, found = call(place, "--all", "--count", 100)
    assert (found["images"], found["synthetic"]) == (8, 6)
    assert sum(not one["synthetic"] for one in found["by_features"]) == 2


def test_rankings_are_compared_with_judgments(place: Path, tmp_path: Path) -> None:
    rows = [f"secret-name.png,o{number},{4 if number == 3 else 1}" for number in range(6)]
    asked = ("--judgments", table(tmp_path, *rows), "--output", tmp_path / "out")
    code, found = call(place, *asked, image="scans")
    assert code == 0
    assert (found["images"], found["judgments"], [at["p"] for at in found["at"]]) == (1, 6, [4])
    assert found["at"][0]["features"]["value"] == 1
    assert found["at"][0]["chance"] < 1
    assert "secret" not in (tmp_path / "out/ranking.html").read_text()


@pytest.mark.parametrize(
    ("row", "message"),
    [("../secret-name.png,o0,1", "not in the folder"), ("secret-name.png,o7,1", "not in the catalog")],
)
def test_judgments_of_missing_objects_are_an_error(
    place: Path, tmp_path: Path, row: str, message: str
) -> None:
    rows = [row, *(f"{row.split(',')[0]},o{number},2" for number in range(1, 5))]
    code, found = call(place, "--judgments", table(tmp_path, *rows), image="scans")
    assert code == 2
    assert message in found["message"]
    assert "secret" not in found["message"]


def test_the_error_for_an_unreadable_image_contains_no_name(place: Path) -> None:
    (place / "scans/secret-text").write_text("no image")
    for name in ("scans/secret-text", "scans/secret-missing"):
        code, found = call(place, image=name)
        assert code == 2
        assert "cannot be read" in found["message"]
        assert "secret" not in found["message"]


def test_a_color_image_cannot_be_explained(place: Path, tmp_path: Path) -> None:
    draw = np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8)
    Image.fromarray(draw).save(tmp_path / "color.png")
    code, found = call(place, image=tmp_path / "color.png")
    assert code == 2
    assert "only radiographs" in found["message"]


def test_a_modified_catalog_is_rejected(place: Path, tmp_path: Path) -> None:
    release = make_release(tmp_path / "release", [as_png(0, tmp_path)], lambda _: True)
    (release / "data/S000/image.png").write_bytes(as_png(1, tmp_path))
    done = CliRunner().invoke(
        cli, ["explain", str(place / "scans/secret-name.png"), "--catalog", str(release)]
    )
    assert done.exit_code == 4
    assert "does not match its checksums" in done.stderr


def test_a_catalog_without_synthetic_images_requires_all(place: Path, tmp_path: Path) -> None:
    release = make_release(tmp_path / "release", [as_png(0, tmp_path), b"no image"], lambda _: False)
    given = ["explain", str(place / "scans/secret-name.png"), "--catalog", str(release)]
    done = CliRunner().invoke(cli, given)
    assert done.exit_code == 2
    assert "no synthetic image" in done.stderr
    done = CliRunner().invoke(cli, [*given, "--all"])
    assert done.exit_code == 1
    assert "Excluded: 1 (not readable: not-an-image)" in done.stdout
    assert "a real image" in done.stdout


def test_a_folder_without_a_release_is_an_error(place: Path) -> None:
    given = ["explain", str(place / "scans/secret-name.png"), "--catalog", str(place / "scans")]
    done = CliRunner().invoke(cli, given)
    assert done.exit_code == 2
    assert "not a release" in done.stderr
