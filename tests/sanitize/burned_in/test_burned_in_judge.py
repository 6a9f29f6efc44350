"""Identifying lines are selected, alone or by their neighbors; harmless lines and anatomy are not."""

from __future__ import annotations

import pytest
from medsanitize.sanitize.burned_in.boxes import TextBox, area_to_blank
from medsanitize.sanitize.burned_in.classify import find_identifying_boxes
from medsanitize.sanitize.burned_in.device import Device


class Names:
    """Replaces the text cleaner: knows two names, dates by their dots, and names by their label."""

    def identifying(self, text: str, terms: frozenset[str], *, noisy: bool) -> bool:
        assert noisy
        words = text.upper().replace(":", " : ").split()
        labeled = "NAME :" in " ".join(words) and len(words) > 2
        return labeled or "ANNA LEE" in " ".join(words) or any(word in terms for word in words)


def line(text: str, left: int, top: int, *, width: int = 0, height: int = 12, score: float = 0.95) -> TextBox:
    return TextBox(left, top, left + (width or 7 * len(text)), top + height, text, score)


def chosen(*boxes: TextBox, screen_rows: int | None = None) -> list[str]:
    found = find_identifying_boxes(boxes, Names(), frozenset({"KOWALSKA"}), screen_rows=screen_rows)
    return [box.text for box in found]


def test_a_line_with_a_known_name_is_selected_and_its_harmless_neighbor_kept() -> None:
    assert chosen(line("KOWALSKA", 5, 5), line("PORTABLE", 90, 5)) == ["KOWALSKA"]


def test_words_that_identify_only_jointly_are_selected_together() -> None:
    assert chosen(line("ANNA", 5, 5), line("LEE", 40, 6), line("PORTABLE", 5, 60)) == ["ANNA", "LEE"]


def test_words_of_different_lines_are_not_joined() -> None:
    assert chosen(line("ANNA", 5, 5), line("LEE", 40, 40)) == []


def test_the_value_next_to_or_below_a_label_is_classified_with_it() -> None:
    assert chosen(line("Name:", 5, 5), line("Black", 50, 5)) == ["Name:", "Black"]
    assert chosen(line("Name:", 5, 5), line("Black", 5, 20)) == ["Name:", "Black"]


def test_a_name_split_along_a_vertical_line_is_joined_in_both_directions() -> None:
    first, second = TextBox(5, 60, 17, 90, "ANNA", 0.9), TextBox(5, 30, 17, 56, "LEE", 0.9)
    assert chosen(second, first) == ["LEE", "ANNA"]


def test_unreadable_text_identifies_and_anatomy_does_not() -> None:
    unreadable = line("IOSNLASUE", 5, 5, score=0.45)
    anatomy = [line("2", 90, 90, width=120, height=90, score=0.4), line("", 5, 200, width=60, score=0.0)]
    bone = line("R000", 200, 200, width=96, height=172, score=0.56)
    assert chosen(unreadable, *anatomy, bone) == ["IOSNLASUE"]


def test_an_extended_box_covers_partial_letters_and_stays_in_the_frame() -> None:
    area = area_to_blank(line("KOWALSKA", 3, 2), (100, 70))
    assert (area.left, area.top, area.right, area.bottom) == (0, 0, 65, 17)


def test_a_letter_adjacent_to_a_name_is_removed_and_a_distant_one_kept() -> None:
    name, sex, side = line("KOWALSKA", 5, 5), line("F", 70, 5, width=8), line("L", 120, 5, width=8)
    assert chosen(name, sex, side) == ["KOWALSKA", "F"]


def test_a_laterality_marker_is_kept_unless_it_touches_a_name() -> None:
    assert chosen(line("KOWALSKA", 5, 5), line("R", 73, 5, width=8)) == ["KOWALSKA"]
    assert chosen(line("KOWALSKA", 5, 5), line("R", 63, 5, width=8)) == ["KOWALSKA", "R"]


def test_label_and_letters_of_an_upward_line_are_removed_with_its_name() -> None:
    label, name = TextBox(5, 160, 17, 190, "Pat:", 0.9), TextBox(5, 100, 17, 156, "KOWALSKA", 0.9)
    sex = TextBox(5, 78, 17, 88, "F", 0.9)
    assert chosen(sex, name, label) == ["F", "KOWALSKA", "Pat:"]


def test_at_the_edges_of_a_screen_only_lines_of_the_machine_stay() -> None:
    shown = (
        *(line("WEST", 5, 20), line("MEDICAL", 50, 20), line("11:24:20", 300, 20), line("16cm", 500, 20)),
        *(line("WEST", 5, 200), line("MI 0.9", 5, 460), line("SIDE", 300, 460)),
    )

    assert chosen(*shown, screen_rows=480) == ["WEST", "MEDICAL", "11:24:20", "SIDE"]
    assert chosen(*shown) == []


def test_a_setting_in_the_line_of_an_institution_is_removed_with_it() -> None:
    assert chosen(line("WEST", 5, 20), line("16cm", 40, 20), screen_rows=480) == ["WEST", "16cm"]


def test_anatomy_at_the_edge_of_a_screen_is_kept() -> None:
    assert chosen(line("O", 5, 0, width=400, height=90), line("", 5, 5, width=20), screen_rows=480) == []


def test_a_part_of_a_word_is_removed_with_the_rest() -> None:
    assert chosen(line("WEST", 5, 5), line("KOWALSKA", 34, 5)) == ["WEST", "KOWALSKA"]
    assert chosen(line("WEST", 5, 5), line("KOWALSKA", 43, 5)) == ["KOWALSKA"]


def test_parts_that_identify_only_as_one_word_are_removed() -> None:
    assert chosen(line("KOWAL", 5, 5), line("SKA", 40, 5)) == ["KOWAL", "SKA"]
    assert chosen(line("KOWAL", 5, 5), line("SKA", 48, 5)) == []


@pytest.mark.parametrize(
    ("device", "screen"),
    [
        (Device(modality="US"), True),
        (Device(modality="OT", sop_class="1.2.840.10008.5.1.4.1.1.7"), True),
        (Device(modality="XC", sop_class="1.2.840.10008.5.1.4.1.1.77.1.1"), True),
        (Device(modality="CT", image_type="DERIVED\\SECONDARY\\SCREEN SAVE"), True),
        (Device(modality="CR", sop_class="1.2.840.10008.5.1.4.1.1.1"), False),
        (Device(modality="SM", sop_class="1.2.840.10008.5.1.4.1.1.77.1.6"), False),
        (Device(), False),
    ],
)
def test_screens_are_recognized_by_modality_class_and_image_type(device: Device, screen: bool) -> None:
    assert device.is_screen is screen
