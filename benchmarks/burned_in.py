"""Recall and false positives of burned-in text cleaning by font, size, angle, contrast, background, language.

    python benchmarks/burned_in.py [--pictures 40] [--seed 1] [--show OUT]
    python benchmarks/burned_in.py --scripts 2 [--fonts FOLDER]
    python benchmarks/burned_in.py --codes 4

Draws identifying lines and device labels on real slices, on simulated ultrasound and X-ray backgrounds and on
uniform ones, cleans every picture, and prints by property how many identifying lines are blanked completely
and how many device labels are kept. With --scripts or --codes, so many pictures are drawn for each of 14
scripts, at any angle, or for each of eight symbologies; scripts without a font of the system or in the folder
are left out. With --show, pictures with an error are written to OUT before and after.
Exits 1 if ten percent of the lines or more are not blanked.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import table
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Frame = NDArray[np.uint8]
Mask = NDArray[np.bool_]

LINES = {
    "English": ("Doe, Margaret 1961-04-07", "MRN 44719026", "Lakeview Memorial Hospital", "DOB: 11.02.1958"),
    "German": ("Pat: SCHÖNFELD, JÜRGEN  M", "geb. 03.09.1947", "Klinikum Weidental", "Fallnr. 8830217"),
    "French": ("Nom: LEFÈVRE HÉLÈNE", "née le 14/07/1952", "Hôpital Saint-Anselme", "N° ACC77201934"),
    "Spanish": ("PEÑALVER IÑIGO", "Hosp. Virgen del Robledal", "NHC 55120987", "F.Nac 21/12/1970"),
    "Polish": ("WIŚNIEWSKA MAŁGORZATA", "Szpital w Brzezinach", "PESEL 68051312345", "ur. 1968-05-13"),
    "Portuguese": ("CONCEIÇÃO JOÃO", "Nasc. 30/08/1949", "Santa Casa de Vilarinho", "Prontuário 6620981"),
    "Swedish": ("ÅKERSTRÖM BJÖRN", "Pnr 19530412-1234", "Lasarettet Granby", "2021-10-30 68Y"),
    "Turkish": ("YILDIRIM AYŞEGÜL", "Protokol 90231177", "Çamlıca Hastanesi", "D.T. 17.01.1944"),
}
WORDS = (
    *("R", "L", "PORTABLE", "AP", "LAT", "kVp 120", "80 kV 2.5 mAs", "5 cm", "10 cm", "MI 0.9", "TIS 0.4"),
    *(
        "SUPINE",
        "ERECT",
        "DEPTH 14 cm",
        "Gain 52%",
        "FR 38 Hz",
        "2D",
        "T2 TSE",
        "W 400 L 40",
        "Zoom 1.5",
        "liegend",
    ),
)
SCRIPTS = {
    "Latin": ("Grzbowska Anna 1961", "Klinikum Weidental", "MRN 44719026"),
    "Cyrillic": ("ИВАНОВА МАРИЯ ПЕТРОВНА", "Больница Святого Георгия", "Ковальчук Олена"),
    "Greek": ("ΠΑΠΑΔΟΠΟΥΛΟΣ ΓΕΩΡΓΙΟΣ", "Νοσοκομείο Ευαγγελισμός", "Ελένη Δημητρίου"),
    "Armenian": ("Արամ Պետրոսյան", "Երևանի հիվանդանոց", "ՀԱՍՄԻԿ ՍԱՐԳՍՅԱՆ"),
    "Georgian": ("ნინო ბერიძე", "თბილისის კლინიკა", "გიორგი მაისურაძე"),
    "Hebrew": ("רחל אברהמי", "בית חולים הדסה", "יוסף בן דוד"),
    "Arabic": ("مستشفى النور", "محمد عبد الله", "فاطمة الزهراء"),
    "Lao": ("ສົມພອນ ວົງສາ", "ໂຮງໝໍມະໂຫສົດ", "ບຸນມີ ແກ້ວມະນີ"),
    "Tifinagh": ("ⴰⵎⴰⵣⵉⵖ ⵜⵉⵣⵉⵔⵉ", "ⵜⴰⵙⴳⵏⴰⴼⵜ ⵏ ⴰⴳⴰⴷⵉⵔ", "ⵢⵓⴱⴰ ⵎⴰⵙⵉⵏ"),
    "Canadian syllabics": ("ᐊᓈᓇ ᑲᓇᑕᒥ", "ᐃᖃᓗᐃᑦ ᐋᓐᓂᐊᕕᒃ", "ᐱᑕ ᐊᒃᓱᒃ"),
    "N'Ko": ("ߡߊ߬ߡߊߘߎ߫ ߖߊ߬ߟߏ", "ߞߊ߲ߞߊ߲ ߘߊ߲ߘߊߦߙߐ", "ߝߊ߬ߕߎ߫ ߞߎߦߊߕߍ"),
    "Thai": ("โรงพยาบาลศิริราช", "สมชาย ใจดี", "นางสาวมาลี ศรีสุข"),
    "Devanagari": ("राम कुमार शर्मा", "दिल्ली अस्पताल", "सीता देवी वर्मा"),
    "Tamil": ("முருகன் செல்வம்", "சென்னை மருத்துவமனை", "லட்சுமி நாராயணன்"),
}
SYMBOLOGIES = {
    **{"QRCode": "4471902-77", "DataMatrix": "4471902-77", "Aztec": "4471902-77", "PDF417": "4471902-77"},
    **{"Code128": "4471902-77", "Code39": "4471902", "ITF": "44719026", "EAN13": "4006381333931"},
}
SCRIPT_SIZES, SCRIPT_INKS, SCRIPT_ANGLES = (
    (10, 12, 16, 20, 28, 40),
    (0.3, 0.5, 0.8, 1.0),
    (0, 7, 45, 90, 180, 270),
)
DIM = 20
LINEAR = ("Code128", "Code39", "ITF", "EAN13")
MODULES, CODE_ANGLES = (2, 3, 4), (0, 90, 30, 45)
POLICY = {
    **{"version": 1, "preset": "research", "inputs": ["./in"], "output": "./out", "state": "./state"},
    **{"release": {"name": "b", "version": "1.0", "mode": "pseudonymous"}, "keys": {"file": "./key"}},
}
SYSTEM_FONTS = (
    *("dejavu/DejaVuSans.ttf", "dejavu/DejaVuSansMono.ttf", "liberation/LiberationSans-Bold.ttf"),
    *("liberation/LiberationSansNarrow-Regular.ttf", "liberation/LiberationMono-Regular.ttf"),
    "liberation/LiberationSerif-Regular.ttf",
)
FOLDER = Path("/usr/share/fonts/truetype")
SIZES = (8, 9, 10, 11, 12, 14, 18, 26, 40)
INKS = (0.1, 0.18, 0.3, 0.5, 0.8, 1.0)
ANGLES = (0, 0, 0, 90, 180, 270)
STYLES = ("plain", "plain", "plain", "outlined", "boxed")
# Anti-aliased borders may remain; a word that a neighboring blank overlaps slightly still counts
# as kept.
WHOLE, KEPT = 0.97, 0.2
LEAST = 0.9
# Part of a picture that is lost to blanking, from which it is useless.
TOO_MUCH = 0.5
SHORTEST = 60
NOT_IN_DEJAVU = ("Thai", "Devanagari", "Tamil")
# Contrast between ink and background, in standard deviations of the background, from which a line counts.
LEGIBLE = 2.0


@dataclass(frozen=True)
class Drawn:
    """One text in a picture: its glyphs, whether it identifies, and its properties by name."""

    text: str
    glyphs: Mask
    identifies: bool
    properties: dict[str, str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, clean, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pictures", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=Path)
    parser.add_argument("--scripts", type=int, metavar="PICTURES")
    parser.add_argument("--codes", type=int, metavar="PICTURES")
    parser.add_argument("--fonts", type=Path, help="folder with further fonts, such as Noto's")
    given = parser.parse_args(arguments)
    if given.scripts or given.codes:
        return unread(given)
    blank = blanker()
    tallies: defaultdict[tuple[bool, str, str], list[int]] = defaultdict(lambda: [0, 0])
    start = time.process_time()
    pixels = 0
    for number in range(given.pictures):
        frame, texts = picture(np.random.default_rng([given.seed, number]))
        covered = blank(frame)
        pixels += frame.size
        missed = [one for one in texts if not fits(one, covered)]
        for one in texts:
            for name, value in (*one.properties.items(), ("all", "")):
                tally = tallies[one.identifies, name, value]
                tally[0] += fits(one, covered)
                tally[1] += 1
        if missed and given.show:
            show(given.show, number, frame, covered, missed)
    rows = [
        (name, value, *cells(tallies, name, value)) for name, value in sorted({key[1:] for key in tallies})
    ]
    print(table(("property", "value", "lines blanked", "machine words kept"), rows))
    took = time.process_time() - start
    print(f"\n{given.pictures} pictures, {pixels / 1e6:.1f} megapixels, {took:.0f} s of CPU")
    hidden, of = tallies[True, "all", ""]
    return int(hidden < LEAST * of)


def unread(given: argparse.Namespace) -> int:
    """Draw scripts or codes, clean, print how many are blanked; return the exit code."""
    blank = blanker()
    tallies: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    start = time.process_time()
    lost = pictures = pixels = 0
    quarantined = held = 0
    for kind in SCRIPTS if given.scripts else SYMBOLOGIES:
        for number in range(given.scripts or given.codes):
            rng = np.random.default_rng([given.seed, number, len(kind), ord(kind[0])])
            frame, texts = (
                script_picture(rng, kind, given.fonts) if given.scripts else code_picture(rng, kind)
            )
            if not texts:
                break
            covered = blank(frame)
            pixels += frame.size
            pictures += 1
            if covered.all():
                quarantined, held = quarantined + 1, held + len(texts)
                continue
            lost += int(covered.mean() > TOO_MUCH)
            missed = [one for one in texts if not fits(one, covered)]
            for one in texts:
                for name, value in (*one.properties.items(), ("all", "")):
                    tallies[name, value][0] += fits(one, covered)
                    tallies[name, value][1] += 1
            if missed and given.show:
                show(given.show, number, frame, covered, missed)
    rows = [(name, value, f"{hits} of {of}") for (name, value), (hits, of) in sorted(tallies.items())]
    print(table(("property", "value", "blanked"), rows))
    took = time.process_time() - start
    print(f"\n{pictures} pictures, {pixels / 1e6:.1f} megapixels, {took:.0f} s of CPU")
    print(f"{quarantined} pictures with {held} lines were quarantined (not in the table)")
    print(f"{lost} pictures lost more than half of their area")
    hidden, of = tallies["all", ""]
    return int(hidden < LEAST * of)


def script_picture(rng: np.random.Generator, script: str, folder: Path | None) -> tuple[Frame, list[Drawn]]:
    """A background with lines of one script at different angles."""
    ground = str(rng.choice(list(GROUNDS)))
    frame, drawn = GROUNDS[ground](rng, 512, 512), []
    taken: Mask = np.zeros(frame.shape, bool)
    path = font_of(script, folder)
    for _ in range(6 if path else 0):
        text, size = str(rng.choice(SCRIPTS[script])), int(rng.choice(SCRIPT_SIZES))
        angle, ink = int(rng.choice(SCRIPT_ANGLES)), float(rng.choice(SCRIPT_INKS))
        glyphs, _ = outline(path or Path(), text, size)
        layer = Image.fromarray((255 * glyphs).astype(np.uint8))
        turned = np.asarray(layer.rotate(angle, Image.Resampling.BICUBIC, expand=True)) / 255
        names = {
            "script": script,
            "angle": f"{angle:3}",
            "size": f"{size:2}",
            "ink": f"{ink:.1f}",
            "ground": ground,
        }
        drawn += put(rng, frame, taken, turned, ink, text, names)
    return frame, drawn


def code_picture(rng: np.random.Generator, name: str) -> tuple[Frame, list[Drawn]]:
    """A background with one code on a label of the opposite gray value."""
    import zxingcpp

    ground = str(rng.choice(list(GROUNDS)))
    frame = GROUNDS[ground](rng, 512, 512)
    code = zxingcpp.create_barcode(SYMBOLOGIES[name], getattr(zxingcpp.BarcodeFormat, name))
    module, angle = int(rng.choice(MODULES)), int(rng.choice(CODE_ANGLES))
    modules = np.asarray(zxingcpp.write_barcode_to_image(code, scale=module, add_quiet_zones=False)).squeeze()
    if name in LINEAR and len(modules) < SHORTEST:
        modules = np.repeat(modules[:1], SHORTEST, axis=0)
    label = Image.fromarray(np.pad(255 - modules, 10 * module))
    turned = np.asarray(label.rotate(angle, Image.Resampling.BICUBIC, expand=True)) / 255
    on = Image.new("L", label.size, 255).rotate(angle, expand=True)
    names = {"symbology": name, "angle": f"{angle:3}", "module": str(module), "ground": ground}
    place = somewhere(rng, turned.shape, np.zeros(frame.shape, bool))
    if place is None:
        return frame, []
    dark, light = (DIM, 255) if rng.integers(2) else (255, DIM)
    frame[place[0]] = np.where(np.asarray(on) > 0, light * (1 - turned) + dark * turned, frame[place[0]])
    mask: Mask = np.zeros(frame.shape, bool)
    mask[place[0]] = turned > 0.5
    return frame, [Drawn(name, mask, True, names)]


def put(
    rng: np.random.Generator,
    frame: Frame,
    taken: Mask,
    glyphs: NDArray[np.float64],
    ink: float,
    text: str,
    names: dict[str, str],
) -> list[Drawn]:
    """Draw glyphs in a free area; empty if there is no room or they would be illegible."""
    place = somewhere(rng, glyphs.shape, taken)
    if place is None:
        return []
    under = frame[place[0]].astype(float)
    level, grain = float(under.mean()), float(np.diff(under, axis=1).std())
    value = level + 255 * ink * (1 if level < 128 else -1)
    value = min(max(value, 0.0), 255.0)
    if abs(value - level) < LEGIBLE * grain:
        return []
    frame[place[0]] = np.round(under * (1 - glyphs) + value * glyphs).astype(np.uint8)
    taken[place[0]] = True
    mask: Mask = np.zeros(frame.shape, bool)
    mask[place[0]] = glyphs > 0.45
    return [Drawn(text, mask, True, names)]


def font_of(script: str, folder: Path | None) -> Path | None:
    """A font with the letters of a script."""
    found = sorted(folder.rglob(f"*Noto*{script}*.ttf")) if folder else []
    path = FOLDER / "dejavu/DejaVuSans.ttf"
    if found or script in NOT_IN_DEJAVU or not path.exists():
        return found[0] if found else None
    return path


def cells(tallies: dict[tuple[bool, str, str], list[int]], name: str, value: str) -> Iterator[str]:
    """``hits of all`` of the lines and of the words with one property."""
    for identifies in (True, False):
        hits, of = tallies.get((identifies, name, value), (0, 0))
        yield f"{hits} of {of}" if of else ""


def fits(one: Drawn, covered: Mask) -> bool:
    """Whether a line is blanked completely, or a word is kept."""
    share = float((one.glyphs & covered).sum() / max(one.glyphs.sum(), 1))
    return share >= WHOLE if one.identifies else share <= KEPT


def blanker() -> Callable[[Frame], Mask]:
    """Return a function that gives the blanked area of a frame under ``research``, without known identifiers.

    A quarantined frame counts as blanked: it is not released.
    """
    from medsanitize.policies.load import loads
    from medsanitize.sanitize.formats.ground import mask_of
    from medsanitize.sanitize.quarantine import Quarantined
    from medsanitize.sanitize.raster.clean_picture_text import PageCleaner
    from medsanitize.sanitize.text.cleaner import TextCleaner
    from medsanitize.sanitize.text.known_identifiers import compile_terms

    policy = loads(json.dumps(POLICY), base=Path())
    reader, nobody = PageCleaner(policy, TextCleaner(policy.text)), compile_terms(())

    def blank(frame: Frame) -> Mask:
        try:
            found = reader.clean([frame[:, :, None]], nobody, ())
        except Quarantined:
            return np.ones(frame.shape, bool)
        return mask_of(found.areas.get(0, ()), frame.shape)

    return blank


def picture(rng: np.random.Generator) -> tuple[Frame, list[Drawn]]:
    """A background with lines and words at random positions that do not overlap."""
    kind = str(rng.choice(list(GROUNDS)))
    rows, columns = ((256, 256), (480, 640), (512, 512), (512, 512), (768, 1024))[rng.integers(5)]
    frame = GROUNDS[kind](rng, rows, columns)
    taken: Mask = np.zeros(frame.shape, bool)
    drawn = []
    # Seven identifying lines and three device labels, so that most of a picture tests recall.
    for turn in range(10):
        one = draw(rng, frame, taken, identifies=turn < 7, ground=kind)
        if one is not None:
            drawn.append(one)
    return frame, drawn


def draw(
    rng: np.random.Generator, frame: Frame, taken: Mask, *, identifies: bool, ground: str
) -> Drawn | None:
    """Draw one text in a free area; ``None`` if there is no room or it would be illegible."""
    # Device labels are drawn upright and at least 12 pixels high, as devices do.
    language = str(rng.choice(list(LINES))) if identifies else "machine"
    text = str(rng.choice(LINES[language] if identifies else WORDS))
    font, size = str(rng.choice(list(fonts()))), int(rng.choice(SIZES if identifies else SIZES[4:]))
    angle = int(rng.choice(ANGLES)) if identifies else 0
    style, ink = str(rng.choice(STYLES)), float(rng.choice(INKS if identifies else INKS[2:]))
    glyphs, edge = fonts()[font](text, size)
    glyphs, edge = (np.rot90(one, angle // 90) for one in (glyphs, edge))
    place = somewhere(rng, glyphs.shape, taken)
    if place is None:
        return None
    area, at_border = place
    under = frame[area].astype(float)
    # Differences of neighboring pixels measure noise without the slope of the anatomy.
    level, grain = float(under.mean()), float(np.diff(under, axis=1).std())
    bright = bool(rng.integers(2)) if 255 * ink < min(level, 255 - level) else level < 128
    value = level + 255 * ink * (1 if bright else -1)
    value = min(max(value, 0.0), 255.0)
    if style != "boxed" and abs(value - level) < LEGIBLE * grain:
        return None
    if style == "boxed":
        under[:] = 0 if bright else 255
        value = 255 * max(ink, 0.18) if bright else 255 - 255 * max(ink, 0.18)
    elif style == "outlined":
        under = under * (1 - edge) + (0 if bright else 255) * edge
    frame[area] = np.round(under * (1 - glyphs) + value * glyphs).astype(np.uint8)
    taken[area] = True
    mask: Mask = np.zeros(frame.shape, bool)
    # Without the anti-aliased border, whose pixels are mostly background.
    mask[area] = glyphs > 0.45
    properties = {
        **{"angle": f"{angle:3}", "font": font, "size": f"{size:2}", "ground": ground, "language": language},
        **{"ink": f"{ink:.2f}" if style == "plain" else style, "polarity": "bright" if bright else "dark"},
        **{"place": "border" if at_border else "inside", "frame": f"{frame.shape[1]:4} wide"},
    }
    return Drawn(text, mask, identifies, properties)


def somewhere(
    rng: np.random.Generator, shape: tuple[int, ...], taken: Mask
) -> tuple[tuple[slice, slice], bool] | None:
    """A free position for a text of ``shape``, often at the border."""
    rows, columns = taken.shape
    if shape[0] > rows or shape[1] > columns:
        return None
    for _ in range(30):
        top, left = int(rng.integers(rows - shape[0] + 1)), int(rng.integers(columns - shape[1] + 1))
        border = bool(rng.integers(3) == 0)
        if border:
            top = 0 if rng.integers(2) else rows - shape[0]
        # The margin keeps neighboring texts separate.
        around = taken[max(0, top - 12) : top + shape[0] + 12, max(0, left - 40) : left + shape[1] + 40]
        if not around.any():
            return np.s_[top : top + shape[0], left : left + shape[1]], border
    return None


# Coverage of each pixel by a glyph, and by its outline of one pixel, from 0 to 1.
Glyphs = tuple[NDArray[np.float64], NDArray[np.float64]]


def fonts() -> dict[str, Callable[[str, int], Glyphs]]:
    """All available fonts by name: those of the system, Pillow's two, and vector strokes."""
    made: dict[str, Callable[[str, int], Glyphs]] = {
        path.stem: partial(outline, path) for name in SYSTEM_FONTS if (path := FOLDER / name).exists()
    }
    made["Pillow's own"] = lambda text, size: typeset(text, ImageFont.load_default(size))
    made["Pillow's bitmap"] = bitmap
    made["Hershey simplex"] = lambda text, size: strokes(text, size, face=0)
    made["Hershey plain"] = lambda text, size: strokes(text, size, face=1)
    return made


def outline(path: Path, text: str, size: int) -> Glyphs:
    """Render a line in a font of the system."""
    return typeset(text, ImageFont.truetype(path, size))


def typeset(text: str, font: Any) -> Glyphs:
    """Render a line in an outline font."""
    left, top, right, bottom = (int(side) for side in font.getbbox(text))
    layers = []
    for width in (0, 1):
        layer = Image.new("L", (right - left + 4, bottom - top + 4))
        ImageDraw.Draw(layer).text((2 - left, 2 - top), text, fill=255, font=font, stroke_width=width)
        layers.append(np.asarray(layer) / 255.0)
    return layers[0], layers[1]


def bitmap(text: str, _: int) -> Glyphs:
    """Render a line in Pillow's bitmap font of 11 pixels, which has only Latin-1."""
    plain = text.encode("latin-1", "replace").decode("latin-1")
    return typeset(plain, ImageFont.load_default_imagefont())


def strokes(text: str, size: int, *, face: int) -> Glyphs:
    """Render a line in a vector font of ASCII letters."""
    import cv2

    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    scale = cv2.getFontScaleFromHeight(face, max(6, round(size * 0.72)), 1)
    (width, height), below = cv2.getTextSize(plain, face, scale, 1)
    layers = []
    for thick in (1, 3):
        layer = np.zeros((height + below + 4, width + 4), np.uint8)
        cv2.putText(layer, plain, (2, height + 2), face, scale, 255, thick, cv2.LINE_AA)
        layers.append(layer / 255.0)
    return layers[0], layers[1]


def slice_of(name: str) -> Callable[[np.random.Generator, int, int], Frame]:
    """Background from one of pydicom's test files, enlarged."""

    def ground(_: np.random.Generator, rows: int, columns: int) -> Frame:
        import pydicom
        from pydicom.data import get_testdata_file

        values = pydicom.dcmread(str(get_testdata_file(name, download=False))).pixel_array.astype(float)
        low, high = np.percentile(values, (0.5, 99.5))
        gray = np.clip((values - low) / (high - low) * 255, 0, 255).astype(np.uint8)
        return np.asarray(Image.fromarray(gray).resize((columns, rows), Image.Resampling.BICUBIC)).copy()

    return ground


def ultrasound(rng: np.random.Generator, rows: int, columns: int) -> Frame:
    """Background: a sector of speckle on black."""
    import cv2

    y, x = np.mgrid[:rows, :columns]
    away, across = np.hypot(y + 0.1 * rows, x - columns / 2), np.arctan2(x - columns / 2, y + 0.1 * rows)
    speckle = cv2.GaussianBlur(rng.rayleigh(1, (rows, columns)), (0, 0), 1.2)
    depth = 0.5 + 0.5 * np.sin(away / rows * 9 + rng.uniform(0, 6))
    inside = (np.abs(across) < 0.65) & (away > 0.25 * rows) & (away < 0.98 * rows)
    return np.asarray(np.clip(60 * speckle * depth * inside, 0, 255), np.uint8)


def xray(rng: np.random.Generator, rows: int, columns: int) -> Frame:
    """Background: soft shadows with film grain."""
    import cv2

    shadows = cv2.GaussianBlur(rng.normal(0, 1, (rows, columns)), (0, 0), rows / 12)
    shadows = (shadows - shadows.min()) / np.ptp(shadows)
    return np.asarray(np.clip(255 * shadows + rng.normal(0, 3, (rows, columns)), 0, 255), np.uint8)


def plain(value: int) -> Callable[[np.random.Generator, int, int], Frame]:
    """Background: uniform except for a few pixels."""

    def ground(rng: np.random.Generator, rows: int, columns: int) -> Frame:
        frame = np.full((rows, columns), value, np.uint8)
        frame[rng.integers(rows, size=9), rng.integers(columns, size=9)] = 128
        return frame

    return ground


GROUNDS: dict[str, Callable[[np.random.Generator, int, int], Frame]] = {
    "CT": slice_of("CT_small.dcm"),
    "MR": slice_of("MR_small.dcm"),
    "ultrasound": ultrasound,
    "X-ray": xray,
    "black": plain(0),
    "white": plain(245),
}


def show(out: Path, number: int, frame: Frame, covered: Mask, missed: Sequence[Drawn]) -> None:
    """Write a picture before and after blanking, and print what was missed."""
    out.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.hstack([frame, np.where(covered, np.uint8(90), frame)])).save(out / f"{number:03}.png")
    for one in missed:
        share = float((one.glyphs & covered).sum() / max(one.glyphs.sum(), 1))
        where = np.argwhere(one.glyphs).min(axis=0)
        facts = ", ".join(one.properties.values())
        print(
            f"{number:03} at {where[1]},{where[0]} covered {share:.2f}: {one.text} ({facts})", file=sys.stderr
        )


if __name__ == "__main__":
    sys.exit(main())
