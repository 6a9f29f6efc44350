"""PNG, JPEG and TIFF files with a marker in every location that can carry one."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO

import numpy as np
from PIL import Image

MARKER = "QUIXLEYVANE"
RAW = MARKER.encode()


def scene(rows: int = 48, columns: int = 70) -> Image.Image:
    """A small color picture, always the same."""
    y, x = np.mgrid[0:rows, 0:columns]
    return Image.fromarray(np.stack([x * 3, y * 5, (x * y) % 251], axis=2).astype(np.uint8))


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    stream = BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def pixels_of(data: bytes) -> np.ndarray:
    with Image.open(BytesIO(data)) as image:
        return np.asarray(image.convert("RGBA"))


# -- PNG ------------------------------------------------------------------------------------


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png_parts(data: bytes) -> list[tuple[bytes, bytes]]:
    parts, place = [], 8
    while place < len(data):
        length = int.from_bytes(data[place : place + 4], "big")
        parts.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + length]))
        place += 12 + length
    return parts


def png_of(parts: list[tuple[bytes, bytes]]) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(name, body) for name, body in parts)


def png_with(name: bytes, body: bytes) -> bytes:
    """A PNG with an additional chunk after its header."""
    parts = png_parts(encoded(scene(), "PNG"))
    return png_of([parts[0], (name, body), *parts[1:]])


def png_with_stream(change: str) -> bytes:
    """A PNG with more image data than its header states: after the rows, or after the stream."""
    parts = png_parts(encoded(scene(), "PNG"))
    packed = b"".join(body for name, body in parts if name == b"IDAT")
    if change == "rows":
        packed = zlib.compress(zlib.decompress(packed) + RAW * 20, 0)
    else:
        packed += RAW
    return png_of([parts[0], (b"IDAT", packed), (b"IEND", b"")])


def png_with_palette() -> bytes:
    """A palette picture of four colors whose unused entries spell the marker."""
    image = Image.fromarray((np.arange(600).reshape(20, 30) % 4).astype(np.uint8), "P")
    image.putpalette(bytes(range(12)) + RAW.ljust(12, b"."))
    parts = png_parts(encoded(image, "PNG", bits=8))
    return png_of([(name, body) for name, body in parts if name in (b"IHDR", b"PLTE", b"IDAT", b"IEND")])


def planted_pngs() -> dict[str, bytes]:
    text = b"Author\0" + RAW
    return {
        "tEXt": png_with(b"tEXt", text),
        "zTXt": png_with(b"zTXt", b"Comment\0\0" + zlib.compress(RAW, 0)),
        "iTXt": png_with(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0<x>" + RAW + b"</x>"),
        "eXIf": png_with(b"eXIf", exif_block(6)),
        "iCCP": png_with(b"iCCP", RAW + b"\0\0" + zlib.compress(RAW)),
        "tIME": png_with(b"tIME", RAW[:7]),
        "private": png_with(b"quIX", RAW),
        "bKGD": png_with(b"bKGD", RAW[:6]),
        "cHRM": png_with(b"cHRM", RAW.ljust(32, b"A")),
        "gAMA": png_with(b"gAMA", RAW[:4]),
        "pHYs": png_with(b"pHYs", RAW[:8] + b"\1"),
        "sBIT": png_with(b"sBIT", RAW),
        "suggested palette": png_with(b"PLTE", RAW + RAW + b"--"),
        "behind the end": encoded(scene(), "PNG") + RAW,
        "behind the rows": png_with_stream("rows"),
        "behind the stream": png_with_stream("stream"),
        "unused colors": png_with_palette(),
    }


# -- JPEG -----------------------------------------------------------------------------------


def segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def jpeg_with(*segments: bytes, **options: object) -> bytes:
    data = encoded(scene(), "JPEG", quality=90, **options)
    return data[:2] + b"".join(segments) + data[2:]


def planted_jpegs() -> dict[str, bytes]:
    comment = segment(0xFE, RAW)
    plain, last = jpeg_with(), encoded(scene(), "JPEG", quality=90, progressive=True)
    iptc = b"Photoshop 3.0\x008BIM\x04\x04\0\0" + struct.pack(">I", 16) + b"\x1c\x02\x50\0\x0b" + RAW
    thumbnail = b"JFIF\0\1\1\0\0\1\0\1\4\1" + RAW + b"!"
    return {
        "COM": jpeg_with(comment),
        "EXIF": jpeg_with(segment(0xE1, b"Exif\0\0" + exif_block(1))),
        "XMP": jpeg_with(segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x>" + RAW + b"</x>")),
        "IPTC": jpeg_with(segment(0xED, iptc)),
        "ICC": jpeg_with(segment(0xE2, b"ICC_PROFILE\0\1\1" + RAW)),
        "several pictures": jpeg_with(segment(0xE2, b"MPF\0" + exif_block(1)))
        + jpeg_with(segment(0xFE, RAW)),
        "unknown": jpeg_with(segment(0xE9, RAW)),
        "JFIF thumbnail": plain[:2] + segment(0xE0, thumbnail) + plain[20:],
        "Adobe": jpeg_with(segment(0xEE, b"Adobe" + RAW[:6] + b"\1" + RAW)),
        "unused table": jpeg_with(segment(0xDB, b"\3" + RAW.ljust(64, b"A"))),
        "behind the end": plain + RAW,
        "behind the last block": plain[:-2] + RAW + plain[-2:],
        "behind a progressive scan": last[:-2] + RAW + last[-2:],
    }


# -- TIFF and EXIF --------------------------------------------------------------------------

# Tag, type, number of values, values.
Entry = tuple[int, int, int, bytes]


def ascii_entry(tag: int, text: bytes = RAW) -> Entry:
    return tag, 2, len(text) + 1, text + b"\0"


def exif_block(orientation: int) -> bytes:
    """EXIF with an artist and an orientation."""
    return directory_at(
        8, [(274, 3, 1, struct.pack("<H", orientation)), ascii_entry(315)], b"II*\0\x08\0\0\0"
    )


def directory_at(place: int, entries: list[Entry], before: bytes, after: int = 0) -> bytes:
    """``before`` padded to ``place``, followed by a directory and its values."""
    out = struct.pack("<H", len(entries))
    values = b""
    start = place + 2 + 12 * len(entries) + 4
    for tag, kind, count, value in sorted(entries):
        out += struct.pack("<HHI", tag, kind, count)
        if len(value) > 4:
            out += struct.pack("<I", start + len(values))
            values += value + bytes(len(value) % 2)
        else:
            out += value.ljust(4, b"\0")
    return before.ljust(place, b"\0") + out + struct.pack("<I", after) + values


def number(tag: int, value: int) -> Entry:
    return tag, 4, 1, struct.pack("<I", value)


def tiff_with(
    *entries: Entry, strip: bytes | None = None, compression: int = 1, between: bytes = b"", rows: int = 8
) -> bytes:
    """A gray TIFF of 8 x 8 pixels with these entries; nothing refers to the bytes ``between``."""
    pixels = bytes(range(8 * rows)) if strip is None else strip
    head = b"II*\0" + struct.pack("<I", 8 + len(pixels) + len(between) + len(pixels) % 2)
    basic = [
        *(number(256, 8), number(257, rows), number(259, compression), number(273, 8), number(278, rows)),
        *((258, 3, 1, b"\x08\0"), (262, 3, 1, b"\1\0"), (277, 3, 1, b"\1\0"), number(279, len(pixels))),
    ]
    own = {entry[0] for entry in entries}
    kept = [entry for entry in basic if entry[0] not in own]
    place = 8 + len(pixels) + len(between) + len(pixels) % 2
    return directory_at(place, [*kept, *entries], head + pixels + bytes(len(pixels) % 2) + between)


def tiff_with_thumbnail() -> bytes:
    """A TIFF whose second directory is a thumbnail that spells the marker."""
    inner = [
        *(number(254, 1), number(256, 11), number(257, 1), number(259, 1), number(273, 80), number(279, 11)),
        *((258, 3, 1, b"\x08\0"), (262, 3, 1, b"\1\0"), number(278, 1)),
    ]
    whole = tiff_with(number(330, 0), between=RAW + b"." + bytes(200))
    place = whole.index(RAW) + 20
    child = directory_at(0, inner, b"").replace(struct.pack("<I", 80), struct.pack("<I", whole.index(RAW)), 1)
    whole = whole[:place] + child + whole[place + len(child) :]
    return whole.replace(struct.pack("<HHII", 330, 4, 1, 0), struct.pack("<HHII", 330, 4, 1, place))


def planted_tiffs() -> dict[str, bytes]:
    picture = bytes(range(64))
    exif = directory_at(72, [(274, 3, 1, b"\1\0"), ascii_entry(315)], b"")[72:]
    texts = (269, 270, 271, 272, 285, 305, 306, 315, 316, 33432)
    return {
        **{f"text {tag}": tiff_with(ascii_entry(tag)) for tag in texts},
        "repeated text": tiff_with(ascii_entry(305, b"Scan"), ascii_entry(305)),
        "XMP": tiff_with((700, 1, len(RAW), RAW)),
        "IPTC": tiff_with((33723, 7, len(RAW), RAW)),
        "Photoshop": tiff_with((34377, 1, len(RAW), RAW)),
        "ICC": tiff_with((34675, 7, len(RAW), RAW)),
        "private": tiff_with((50000, 2, len(RAW), RAW)),
        "EXIF": tiff_with(number(34665, 72), between=exif),
        "between": tiff_with(between=RAW + b"."),
        "behind the end": tiff_with() + RAW,
        "thumbnail": tiff_with_thumbnail(),
        "resolution": tiff_with((282, 5, 1, RAW[:8]), (283, 5, 1, RAW[:8])),
        "long strip": tiff_with(strip=picture + RAW, rows=8),
        "deflate": tiff_with(strip=zlib.compress(picture) + RAW, compression=8),
        "packed": tiff_with(strip=b"\x3f" + picture + RAW, compression=32773),
        "jpeg": _jpeg_strip(),
    }


def _jpeg_strip() -> bytes:
    stream = encoded(Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)), "JPEG")
    return tiff_with(strip=stream[:2] + segment(0xFE, RAW) + stream[2:] + RAW, compression=7)
