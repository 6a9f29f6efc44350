"""Pictures of the demo export: a screenshot, a photograph and a scanned sheet."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from medsanitize.pipeline.demo.images import scan

# Location and value of every identifier in a picture.
Planted = list[tuple[str, str]]

_XMP = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:exif="http://ns.adobe.com/exif/1.0/">'
    '<rdf:Description exif:GPSLatitude="{latitude}" exif:GPSLongitude="{longitude}">'
    "<dc:creator><rdf:Seq><rdf:li>{creator}</rdf:li></rdf:Seq></dc:creator>"
    "</rdf:Description></rdf:RDF></x:xmpmeta>"
)


def screenshot(name: str, number: str, author: str) -> tuple[bytes, Planted]:
    """Create a PNG of a viewer's window, with name and number burned in and in text chunks."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    image = Image.fromarray(scan(360, 480)).convert("RGB")
    burned = f"{name} {number}"
    _write(image, burned, 10)
    _write(image, "CHEST  W 400  L 40", 330)
    texts = PngInfo()
    texts.add_text("Author", author)
    texts.add_text("Comment", f"Screenshot of {name}, {number}")
    stream = BytesIO()
    image.save(stream, "PNG", pnginfo=texts)
    planted = [("pixels", burned), ("tEXt", author), ("tEXt", name), ("tEXt", number)]
    return stream.getvalue(), planted


def photograph(creator: str) -> tuple[bytes, Planted]:
    """Create a JPEG of a phone camera, with owner and place in EXIF and XMP."""
    import numpy as np
    from PIL import Image

    latitude, longitude, host = "51,28.4193N", "0,0.1172W", "tess-brightwaters-phone"
    rings = scan(300, 400).astype(int)
    pixels = np.stack([rings + 90, rings // 2 + 70, rings // 3 + 60], axis=2).astype(np.uint8)
    image = Image.fromarray(pixels)
    exif = image.getexif()
    # TIFF tags: orientation, date and time, artist, host computer.
    exif[274], exif[306], exif[315], exif[316] = 1, "2023:02:20 09:14:33", creator, host
    exif.get_ifd(0x8825).update({1: "N", 2: (51.0, 28.4193, 0.0), 3: "W", 4: (0.0, 0.1172, 0.0)})
    xmp = _XMP.format(latitude=latitude, longitude=longitude, creator=creator)
    stream = BytesIO()
    image.save(stream, "JPEG", quality=88, exif=exif, xmp=xmp.encode(), comment=f"by {creator}".encode())
    planted = [("EXIF", creator), ("EXIF", host), ("XMP", latitude), ("XMP", longitude), ("COM", creator)]
    return stream.getvalue(), planted


def sheet(name: str, number: str, artist: str) -> tuple[bytes, Planted]:
    """Create a TIFF of a scanned sheet, with patient and operator in its tags."""
    from PIL import Image

    description, host = f"{name}; {number}; tracing", "AHGH-SCANDESK-4"
    stream = BytesIO()
    Image.fromarray(255 - scan(320, 260)).save(
        stream, "TIFF", compression="tiff_lzw", tiffinfo={270: description, 315: artist, 316: host}
    )
    return stream.getvalue(), [("(270)", description), ("(315)", artist), ("(316)", host)]


def _write(image: Any, text: str, top: int) -> None:
    from PIL import ImageDraw, ImageFont

    ImageDraw.Draw(image).text((12, top), text, font=ImageFont.load_default(20), fill=(255, 255, 255))
