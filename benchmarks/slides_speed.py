"""Time and memory of the release of one large slide, compared with cp and sha256sum in the same run.

    python benchmarks/slides_speed.py OUT [--megabytes 300] [--rounds 5] [--workers 1] [--comments]

Makes an Aperio SVS of that size: two levels, a thumbnail, a label, a macro; with ``--comments`` every tile
has a comment to be removed. Prints median wall times, start-up included, those of the stages, their ratio to
cp and sha256sum, and the peak anonymous memory of a process of the run. Exits 1 above 1.3.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from common import fresh, machine, run, table
from medsanitize.sanitize.formats.tiff.page import OutputPage
from medsanitize.sanitize.formats.tiff.writer import ascii_value, integer_values, write_tiff
from medsanitize.sanitize.formats.tiff_directory import Dialect
from medsanitize.sanitize.pieces import Copy, Piece
from PIL import Image

TARGET = 1.3
WHOLE, PEAK = "medsanitize: whole run", "peak"
BIG = Dialect("<", "big")
TILE, ROWS = 256, 32
"""Width and height of a tile in pixels, and restart intervals per tile (a row of MCUs each)."""
SAID = (
    "Aperio Image Library v12.0.15\r\n{0}x{1} ({2}x{2}) JPEG/RGB Q=80|AppMag = 40|MPP = 0.25"
    "|ScanScope ID = SS7731AHGH|Filename = S26-004711|Title = Doe^Jane|User = jdoe-operator|Date = 07/11/23"
)
Tile = tuple[bytes, ...]
Cut = Sequence[tuple[Piece, ...]]


# -- the slide ----------------------------------------------------------------------------


class Tiles:
    """Endless valid JPEG tiles, all different: rows of a few encoded pictures, recombined."""

    def __init__(self, *, comments: bool) -> None:
        self.chance = random.Random(4711)  # noqa: S311  no secret: the slide is always the same
        self.comments = comments
        self.count = 0
        source = np.random.default_rng(4711)
        rows: list[bytes] = []
        for _ in range(24):
            self.head, found = split(jpeg(tissue(source, TILE, TILE), restart_marker_rows=1))
            rows += found
        # Restart markers cycle through RST0 to RST7, so each row exists with every marker.
        self.rows = [[row + bytes([0xFF, 0xD0 + n]) for row in rows] for n in range(8)]
        self.last = [row + b"\xff\xd9" for row in rows]

    def next(self) -> Tile:
        """Return another tile."""
        self.count += 1
        picked = (self.chance.choice(self.rows[n % 8]) for n in range(ROWS - 1))
        # Numbered, so that no two tiles are equal.
        note = b"S26-004711 %12d" % self.count
        cut = (b"\xff\xfe" + (len(note) + 2).to_bytes(2, "big") + note,) if self.comments else ()
        return (self.head[:2], *cut, self.head[2:], *picked, self.chance.choice(self.last))


def tissue(source: np.random.Generator, high: int, wide: int) -> np.ndarray:
    """A pink picture with noise that encodes to a tile of about 12 KB."""
    grain = source.normal(0, 6, (high // 2, wide // 2, 3)).repeat(2, 0).repeat(2, 1)
    return (np.array([225, 165, 200]) + grain).clip(0, 255).astype(np.uint8)


def jpeg(picture: np.ndarray, **options: int) -> bytes:
    """Encode a picture as JPEG."""
    stream = BytesIO()
    Image.fromarray(picture).save(stream, "JPEG", quality=80, subsampling=0, **options)
    return stream.getvalue()


def split(stream: bytes) -> tuple[bytes, list[bytes]]:
    """Header of a JPEG without its JFIF segment, and its restart intervals."""
    scan = stream.index(b"\xff\xda")
    first = start = at = scan + 2 + int.from_bytes(stream[scan + 2 : scan + 4], "big")
    rows = []
    while (end := stream.find(b"\xff", at)) >= 0:
        if 0xD0 <= stream[end + 1] <= 0xD9:
            rows.append(stream[start:end])
            start = end + 2
        at = end + 2
    return stream[:2] + stream[4 + int.from_bytes(stream[4:6], "big") : first], rows


def page(wide: int, high: int, said: str, cut: Cut, *, tiled: bool, subfile: int = 0) -> OutputPage:
    """A directory as Aperio writes it."""
    values = {
        254: integer_values(BIG, 4, [subfile]),
        256: integer_values(BIG, 4, [wide]),
        257: integer_values(BIG, 4, [high]),
    }
    values |= {tag: integer_values(BIG, 3, [one]) for tag, one in {259: 7, 262: 6, 277: 3, 284: 1}.items()}
    values |= {
        258: integer_values(BIG, 3, [8, 8, 8]),
        530: integer_values(BIG, 3, [1, 1]),
        270: ascii_value(said),
    }
    values |= (
        {tag: integer_values(BIG, 4, [TILE]) for tag in (322, 323)}
        if tiled
        else {278: integer_values(BIG, 4, [high])}
    )
    return OutputPage(values, list(cut), tiled)


def make(path: Path, megabytes: int, *, comments: bool) -> None:
    """Write the slide, image data in the order of pages and tiles, as scanners do."""
    tiles = Tiles(comments=comments)
    one = sum(map(len, tiles.next()))
    side = max(8, int((megabytes * 1e6 / one / (1 + 1 / 16)) ** 0.5) // 4 * 4)
    source = np.random.default_rng(7)
    with path.with_suffix(".tiles").open("w+b") as image_data:
        # Unlinked at once: the open file is freed even if the script is killed.
        path.with_suffix(".tiles").unlink()

        def put(tile: Tile) -> tuple[Copy]:
            begin = image_data.tell()
            image_data.writelines(tile)
            return (Copy(begin, image_data.tell() - begin),)

        def level(across: int, said: str) -> OutputPage:
            cut = [put(tiles.next()) for _ in range(across * across)]
            return page(across * TILE, across * TILE, said, cut, tiled=True)

        def picture(wide: int, high: int, said: str, subfile: int = 0) -> OutputPage:
            whole = put((jpeg(tissue(source, high, wide)),))
            return page(wide, high, said, [whole], tiled=False, subfile=subfile)

        said = SAID.format(side * TILE, side * TILE, TILE)
        pages = [level(side, said), picture(512, 512, said), level(side // 4, said)]
        pages += [picture(360, 120, "Aperio Image Library\r\nlabel", 1)]
        pages += [picture(1280, 400, "Aperio Image Library\r\nmacro", 9)]
        image_data.flush()
        with (
            path.open("wb") as file,
            mmap.mmap(image_data.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as view,
        ):
            for piece in write_tiff(BIG, pages):
                file.write(
                    piece if isinstance(piece, bytes) else view[piece.offset : piece.offset + piece.length]
                )


# -- measuring ----------------------------------------------------------------------------


class Watch(threading.Thread):
    """Samples the anonymous memory of all child processes every few milliseconds."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.stopped = threading.Event()

    def run(self) -> None:
        """Sample until stopped."""
        # Children are listed per thread; the run is started by the main thread.
        me = str(threading.main_thread().native_id)
        while not self.stopped.wait(0.03):
            self.peak = max([self.peak, *below(me)])


def below(process: str) -> list[int]:
    """RssAnon in KB of every descendant process; pages of mapped files are not counted."""
    found, waiting = [], [process]
    while waiting:
        try:
            where = Path("/proc") / waiting.pop() / "task"
            children = [
                child for task in where.iterdir() for child in (task / "children").read_text().split()
            ]
            waiting += children
            for child in children:
                lines = (Path("/proc") / child / "status").read_text().splitlines()
                found += [int(line.split()[1]) for line in lines if line.startswith("RssAnon")]
        except OSError:
            continue  # it has ended meanwhile
    return found


def timed(*command: str | Path) -> float:
    """Wall time of a system program in seconds."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def one_round(slide: Path, folder: Path, workers: int) -> dict[str, float]:
    """Copy and hash, then release; wall seconds by name and the peak memory in MB.

    The copy is deleted before the release is made, and the previous release before the copy: each writes to
    memory that the other freed. On a virtual machine, unused memory takes four times as long to write, which
    would slow down the later of both.
    """
    folder.mkdir()
    seconds = {"cp": timed("cp", slide, folder / "copy"), "sha256sum": timed("sha256sum", folder / "copy")}
    (folder / "copy").unlink()
    os.sync()  # no pending disk writes during the run
    watch = Watch()
    watch.start()
    start = time.perf_counter()
    ran = run(folder / "run", slide.parent, "research", workers=workers, also=(3,))
    seconds[WHOLE] = time.perf_counter() - start
    watch.stopped.set()
    watch.join()
    # Exit code 3 is permitted above to show this message instead of the log.
    if ran.code == 3 or len(ran.released()) != 1:
        sys.exit("The slide was not released: the figures would mislead.")
    seconds |= {f"of which {one['name']}": one["wall_seconds"] for one in ran.result["stages"]}
    shutil.rmtree(folder)
    return seconds | {PEAK: watch.peak / 1024}


def rows_of(figures: dict[str, float], yardstick: float) -> list[tuple[str, str, str]]:
    """Rows of the table; negligible stages are omitted."""
    return [
        (name, f"{value:.2f}", f"{value / yardstick:.2f}") for name, value in figures.items() if value > 0.005
    ]


def measured(out: Path, megabytes: int, rounds: int, workers: int, *, comments: bool) -> dict[str, float]:
    """Make the slide and take medians over the rounds; see `one_round`."""
    inputs = out / "export"
    inputs.mkdir(parents=True)
    make(inputs / "slide.svs", megabytes, comments=comments)
    each = [one_round(inputs / "slide.svs", out / f"round-{number}", workers) for number in range(rounds)]
    return {name: statistics.median(one[name] for one in each) for name in each[0]}


def report(figures: dict[str, float], megabytes: int) -> tuple[str, bool]:
    """A Markdown section, and whether the target is met."""
    seconds = {name: value for name, value in figures.items() if name != PEAK}
    yardstick = seconds["cp"] + seconds["sha256sum"]
    ratio = seconds[WHOLE] / yardstick
    title = f"A slide of {megabytes} MB, wall time with start-up"
    lines = table((title, "seconds", "ratio to cp + sha256sum"), rows_of(seconds, yardstick))
    told = f"Peak anonymous memory of one process: {figures[PEAK]:.0f} MB"
    return f"{lines}\n\n{told}\nratio: {ratio:.2f} (target: at most {TARGET})", ratio <= TARGET


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the slide, measure, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--comments", action="store_true")
    given = parser.parse_args(arguments)
    out = fresh(given.out)
    figures = measured(out, given.megabytes, given.rounds, given.workers, comments=given.comments)
    text, kept = report(figures, given.megabytes)
    print(f"{machine()}\n\n{text}")
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
