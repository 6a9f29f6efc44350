"""Small slides of every vendor, with a marker wherever the format stores identifiers."""

# ruff: noqa: E501  XML and INI as vendors write them

from __future__ import annotations

import base64
import io
import struct
from collections.abc import Callable, Sequence

import numpy as np
import pydicom
from medsanitize.sanitize.formats import czi
from medsanitize.sanitize.formats.edit_plan import EditPlan
from medsanitize.sanitize.formats.mirax_index import write_index
from medsanitize.sanitize.formats.tiff.page import FieldValue, OutputPage
from medsanitize.sanitize.formats.tiff.writer import ascii_value, integer_values, write_tiff
from medsanitize.sanitize.formats.tiff_directory import Dialect
from medsanitize.sanitize.pieces import Copy
from medsanitize.sanitize.wsi.source import SlideView, SourceFile
from PIL import Image
from pydicom.encaps import encapsulate

# Planted in every text, name, comment and picture metadata that must be removed.
MARKER = "ZQ-DOE-JANE-77120"
TILE = 64
CLASSIC, BIG, NDPI = Dialect("<", "classic"), Dialect("<", "big"), Dialect("<", "ndpi")


def tissue(size: int) -> np.ndarray:
    """A smooth RGB picture without uniform areas."""
    y, x = np.mgrid[0:size, 0:size]
    return np.stack([(x * 3 + y) % 200 + 30, (x + y * 2) % 180 + 40, (x * y // 7) % 160 + 60], -1).astype(
        np.uint8
    )


def jpeg(picture: np.ndarray, *, comment: bool = True, restart: int = 0) -> bytes:
    """A 4:4:4 JPEG with an identifying comment."""
    out = io.BytesIO()
    extra = {"restart_marker_blocks": restart} if restart else {}
    Image.fromarray(picture).save(
        out, "JPEG", quality=85, subsampling=0, comment=MARKER if comment else "", **extra
    )
    return out.getvalue()


def tiles(picture: np.ndarray) -> list[bytes]:
    """The picture as encoded tiles, row by row."""
    high, wide = picture.shape[:2]
    return [
        jpeg(np.ascontiguousarray(picture[y : y + TILE, x : x + TILE]))
        for y in range(0, high, TILE)
        for x in range(0, wide, TILE)
    ]


def levels(size: int = 256, count: int = 2) -> list[np.ndarray]:
    """A picture and its downsampled levels."""
    whole = tissue(size)
    return [whole[:: 2**level, :: 2**level].copy() for level in range(count)]


def page(
    dialect: Dialect, picture: np.ndarray, texts: dict[int, str], *, tiled: bool = True, subfile: int = 0
) -> OutputPage:
    """A page of JPEG tiles or one JPEG strip, with texts in the given tags."""
    high, wide = picture.shape[:2]
    shorts = {254: subfile, 259: 7, 262: 6, 277: 3, 284: 1}
    longs = {256: wide, 257: high} | ({322: TILE, 323: TILE} if tiled else {278: high})
    values = {tag: integer_values(dialect, 3, [value]) for tag, value in shorts.items()}
    values |= {tag: integer_values(dialect, 4, [value]) for tag, value in longs.items()}
    values |= {258: integer_values(dialect, 3, [8, 8, 8]), 530: integer_values(dialect, 3, [1, 1])}
    values |= {tag: ascii_value(value) for tag, value in texts.items()}
    encoded = tiles(picture) if tiled else [jpeg(picture)]
    return OutputPage(values, [(one,) for one in encoded], tiled)


def tiff(dialect: Dialect, pages: Sequence[OutputPage]) -> bytes:
    """The bytes of a TIFF."""
    pieces = write_tiff(dialect, pages)
    assert all(isinstance(piece, bytes) for piece in pieces)
    return b"".join(piece for piece in pieces if isinstance(piece, bytes)) + MARKER.encode()


def view(*files: tuple[str, bytes]) -> SlideView:
    """A slide of files in memory."""
    return SlideView(tuple(SourceFile(name, data) for name, data in files))


def written(source: SlideView, plan: EditPlan) -> dict[str, bytes]:
    """The released files by their suffix after the slide's name."""
    return {
        file.name: b"".join(
            bytes(source.files[piece.file].data[piece.offset : piece.offset + piece.length])
            if isinstance(piece, Copy)
            else piece
            for piece in file.pieces
        )
        for file in plan.files
    }


_COMMON = {305: f"Scanner {MARKER}", 306: "2026:03:14 13:37:23", 315: MARKER, 316: MARKER, 33432: MARKER}


def dicom(encoded: Sequence[bytes] | None = None) -> pydicom.Dataset:
    """The largest level of the other slides as DICOM, with the same tiles unless others are given."""
    made = tiles(levels()[0]) if encoded is None else encoded
    data = pydicom.Dataset()
    data.file_meta = pydicom.dataset.FileMetaDataset()
    data.file_meta.TransferSyntaxUID = pydicom.uid.JPEGBaseline8Bit
    data.SOPClassUID = data.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.77.1.6"
    data.SOPInstanceUID = data.file_meta.MediaStorageSOPInstanceUID = "1.2.3.77120"
    data.StudyInstanceUID, data.SeriesInstanceUID, data.Modality = "1.2.3.1", "1.2.3.2", "SM"
    data.PatientID, data.PatientName, data.ImageType = (
        MARKER,
        MARKER,
        ["DERIVED", "PRIMARY", "VOLUME", "NONE"],
    )
    data.Rows, data.Columns, data.NumberOfFrames = TILE, TILE, len(made)
    data.TotalPixelMatrixRows = data.TotalPixelMatrixColumns = 256
    data.SamplesPerPixel, data.PhotometricInterpretation, data.PlanarConfiguration = 3, "YBR_FULL", 0
    data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 8, 8, 7, 0
    data.SpecimenLabelInImage, data.BurnedInAnnotation, data.LossyImageCompression = "NO", "NO", "01"
    data.PixelData = encapsulate(list(made))
    data["PixelData"].VR = "OB"
    return data


def aperio(turned: int = 0, macro: np.ndarray | None = None) -> SlideView:
    """Levels, thumbnail, label and macro of a ScanScope; ``turned`` pixels make it another scan."""
    glass = tissue(120)[:40] if macro is None else macro
    said = f"Aperio Image Library v12\r\n256x256 (64x64) JPEG/RGB Q=85|AppMag = 20|MPP = 0.5|User = {MARKER}"
    first, second = (np.roll(one, turned, axis=0) for one in levels())
    pages = [
        page(CLASSIC, first, _COMMON | {270: said}),
        page(CLASSIC, tissue(96), {270: said}, tiled=False),
        page(CLASSIC, second, {270: said}),
        page(CLASSIC, tissue(80)[:, :60], {270: f"Aperio\r\nlabel 60x80|{MARKER}"}, tiled=False, subfile=1),
        page(CLASSIC, glass, {270: f"Aperio\r\nmacro 120x40|{MARKER}"}, tiled=False, subfile=9),
    ]
    return view(("x.svs", tiff(CLASSIC, pages)))


def afi() -> SlideView:
    """A list of two channels, each an SVS with its label."""
    first, second = (bytes(made().data) for made in (aperio, aperio_gt450))
    names = (f"S26-{MARKER}_DAPI.svs", f"S26-{MARKER}_two.svs")
    listed = "".join(f"<Image><Path>{name}</Path><ID>{MARKER}</ID></Image>" for name in names)
    xml = f'<?xml version="1.0"?>\r\n<ImageList>{listed}<Date>2026-03-14</Date></ImageList>'
    return view(("x.afi", xml.encode()), *zip(names, (first, second), strict=True))


def aperio_gt450(macro: np.ndarray | None = None) -> SlideView:
    """As a GT450 writes it: label and macro are marked by NewSubfileType only."""
    glass = tissue(120)[:40] if macro is None else macro
    said = f"Aperio Leica Biosystems GT450 v1.0\r\n256x256|AppMag = 40|MPP = 0.26|Barcode = {MARKER}"
    first, second = levels()
    pages = [
        page(BIG, first, _COMMON | {270: said}),
        page(BIG, tissue(96), {270: said}, tiled=False),
        page(BIG, second, {270: said}),
        page(BIG, tissue(90), {}, tiled=False, subfile=1),
        page(BIG, glass, {}, tiled=False, subfile=9),
    ]
    return view(("x.svs", tiff(BIG, pages)))


def hamamatsu(macro: np.ndarray | None = None) -> SlideView:
    """One JPEG per level with its index of restart markers, a macro and a property map."""
    pages = [_ndpi_page(picture, 20.0 / 2**level) for level, picture in enumerate(levels())]
    pages.append(_ndpi_page(tissue(120)[:40] if macro is None else macro, -1.0))
    return view(("x.ndpi", tiff(NDPI, pages)))


def _ndpi_page(picture: np.ndarray, lens: float) -> OutputPage:
    high, wide = picture.shape[:2]
    data = jpeg(picture, restart=wide // 8)
    starts = [data.index(b"\xff\xda") + 14] + [
        at + 2 for at in range(len(data) - 1) if data[at] == 0xFF and 0xD0 <= data[at + 1] <= 0xD7
    ]
    values = {
        tag: integer_values(NDPI, 3, [value])
        for tag, value in {259: 7, 262: 6, 277: 3, 284: 1, 296: 3}.items()
    }
    values |= {
        tag: integer_values(NDPI, 4, [value])
        for tag, value in {256: wide, 257: high, 278: high, 65420: 1}.items()
    }
    values |= {258: integer_values(NDPI, 3, [8, 8, 8]), 65421: FieldValue(11, 1, struct.pack("<f", lens))}
    values |= {tag: FieldValue(5, 1, struct.pack("<II", 20000, 1)) for tag in (282, 283)}
    values |= {65424: FieldValue(9, 1, struct.pack("<i", 0)), 65426: integer_values(NDPI, 4, starts)}
    texts = {
        65427: MARKER,
        65428: MARKER,
        65442: MARKER,
        65449: f"NDP.S/N={MARKER}\r\n",
        306: "2026:03:14 13:37:23",
    }
    return OutputPage(
        values | {tag: ascii_value(text) for tag, text in texts.items()}, [(data,)], tiled=False
    )


def leica(macro: np.ndarray | None = None) -> SlideView:
    """A macro of the whole collection, an image of tissue, a label."""
    glass = tissue(120) if macro is None else macro
    high, wide = glass.shape[:2]
    first, second = levels()
    xml = (
        '<?xml version="1.0"?><scn xmlns="http://www.leica-microsystems.com/scn/2010/10/01">'
        f'<collection name="{MARKER}" sizeX="512000" sizeY="512000"><barcode>'
        f"{base64.b64encode(MARKER.encode()).decode()}</barcode>"
        f'<image name="{MARKER}"><pixels sizeX="{wide}" sizeY="{high}"><dimension sizeX="{wide}" sizeY="{high}" r="0" ifd="0"/>'
        '</pixels><view sizeX="512000" sizeY="512000" offsetX="0" offsetY="0"/>'
        "<scanSettings><objectiveSettings><objective>1</objective></objectiveSettings><illuminationSettings>"
        "<illuminationSource>brightfield</illuminationSource></illuminationSettings></scanSettings></image>"
        f'<image name="{MARKER}"><creationDate>2026-03-14T13:37:22</creationDate><device model="Leica SCN400;{MARKER}"/>'
        '<pixels sizeX="256" sizeY="256"><dimension sizeX="256" sizeY="256" r="0" ifd="1"/>'
        '<dimension sizeX="128" sizeY="128" r="1" ifd="2"/></pixels>'
        '<view sizeX="128000" sizeY="128000" offsetX="1000" offsetY="1000"/><scanSettings><objectiveSettings>'
        "<objective>20</objective></objectiveSettings><illuminationSettings><illuminationSource>brightfield"
        "</illuminationSource></illuminationSettings></scanSettings></image></collection></scn>"
    )
    pages = [
        page(BIG, glass, {270: xml}),
        page(BIG, first, {305: MARKER}),
        page(BIG, second, {}),
        page(BIG, tissue(80), {}, tiled=False),
    ]
    return view(("x.scn", tiff(BIG, pages)))


def leica_twice() -> SlideView:
    """A macro of the whole collection and two images of tissue."""
    first, second = levels()
    settings = (
        "<scanSettings><objectiveSettings><objective>20</objective></objectiveSettings><illuminationSettings>"
        "<illuminationSource>brightfield</illuminationSource></illuminationSettings></scanSettings>"
    )
    xml = (
        '<?xml version="1.0"?><scn xmlns="http://www.leica-microsystems.com/scn/2010/10/01">'
        f'<collection name="{MARKER}" sizeX="512000" sizeY="512000"><image name="{MARKER}">'
        '<pixels sizeX="120" sizeY="120"><dimension sizeX="120" sizeY="120" r="0" ifd="0"/></pixels>'
        f'<view sizeX="512000" sizeY="512000" offsetX="0" offsetY="0"/>{settings}</image>'
    )
    for number, offset in ((1, 1000), (3, 200000)):
        xml += (
            '<image><pixels sizeX="256" sizeY="256">'
            f'<dimension sizeX="256" sizeY="256" r="0" ifd="{number}"/>'
            f'<dimension sizeX="128" sizeY="128" r="1" ifd="{number + 1}"/></pixels>'
            f'<view sizeX="128000" sizeY="128000" offsetX="{offset}" offsetY="{offset}"/>{settings}</image>'
        )
    pages = [page(BIG, tissue(120), {270: f"{xml}</collection></scn>"})]
    pages += [page(BIG, picture, {305: MARKER}) for picture in (first, second, first, second)]
    return view(("x.scn", tiff(BIG, pages)))


def philips(macro: np.ndarray | None = None, *, coded: bool = False) -> SlideView:
    """A label as base64 in the XML and as a page; a macro as a page, or with ``coded`` in the XML."""
    first, second = levels()
    picture = base64.b64encode(jpeg(tissue(60))).decode()
    glass = ""
    if macro is not None and coded:
        glass = (
            '<DataObject ObjectType="DPScannedImage"><Attribute Name="PIM_DP_IMAGE_TYPE">MACROIMAGE</Attribute>'
            f'<Attribute Name="PIM_DP_IMAGE_DATA">{base64.b64encode(jpeg(macro)).decode()}</Attribute></DataObject>'
        )
    spacing = "".join(
        '<DataObject ObjectType="PixelDataRepresentation"><Attribute Name="DICOM_PIXEL_SPACING">'
        f'"{0.0005 * 2**level}" "{0.0005 * 2**level}"</Attribute>'
        f'<Attribute Name="PIIM_PIXEL_DATA_REPRESENTATION_NUMBER">{level}</Attribute></DataObject>'
        for level in range(2)
    )
    xml = (
        '<?xml version="1.0"?><DataObject ObjectType="DPUfsImport">'
        f'<Attribute Name="DICOM_DEVICE_SERIAL_NUMBER">{MARKER}</Attribute>'
        '<Attribute Name="PIM_DP_SCANNED_IMAGES"><Array><DataObject ObjectType="DPScannedImage">'
        '<Attribute Name="PIM_DP_IMAGE_TYPE">WSI</Attribute>'
        f'<Attribute Name="PIM_DP_SOURCE_FILE">{MARKER}</Attribute>'
        '<Attribute Name="DICOM_PIXEL_SPACING">"0.0005" "0.0005"</Attribute>'
        f'<Attribute Name="PIIM_PIXEL_DATA_REPRESENTATION_SEQUENCE"><Array>{spacing}</Array></Attribute></DataObject>'
        '<DataObject ObjectType="DPScannedImage"><Attribute Name="PIM_DP_IMAGE_TYPE">LABELIMAGE</Attribute>'
        f'<Attribute Name="PIM_DP_IMAGE_DATA">{picture}</Attribute></DataObject>{glass}</Array></Attribute></DataObject>'
    )
    pages = [
        page(BIG, first, {270: xml, 305: "Philips DP v1.0", 316: MARKER}),
        page(BIG, second, {305: "Philips DP v1.0"}, subfile=1),
        page(BIG, tissue(80), {270: "Label", 305: "Philips DP v1.0"}, tiled=False),
    ]
    if macro is not None and not coded:
        pages.append(page(BIG, macro, {270: "Macro -offset=(0,0)", 305: MARKER}, tiled=False))
    return view(("x.tiff", tiff(BIG, pages)))


def ventana() -> SlideView:
    """Label_Image with iScan first, then thumbnail and levels."""
    first, second = levels()
    scan = f'<Metadata><iScan UnitNumber="{MARKER}" UserName="{MARKER}" ScanRes="0.465" Magnification="20"/></Metadata>'
    joints = "".join(
        f'<TileJointInfo FlagJoined="1" Confidence="98" Direction="RIGHT" Tile1="{_snake(row, at)}" '
        f'Tile2="{_snake(row, at + 1)}" OverlapX="0" OverlapY="0"/>'
        for row in range(4)
        for at in range(3)
    ) + "".join(
        f'<TileJointInfo FlagJoined="1" Confidence="98" Direction="UP" Tile1="{_snake(row, at)}" '
        f'Tile2="{_snake(row - 1, at)}" OverlapX="0" OverlapY="0"/>'
        for row in range(1, 4)
        for at in range(4)
    )
    encode = (
        f'<EncodeInfo Ver="2"><SlideInfo><ServerDirectory Val="{MARKER}"/></SlideInfo><SlideStitchInfo>'
        '<ImageInfo AOIScanned="1" AOIIndex="0" NumRows="4" NumCols="4" Width="64" Height="64" Pos-X="0" Pos-Y="0">'
        f"{joints}</ImageInfo></SlideStitchInfo><AoiOrigin>"
        '<AOI0 OriginX="0" OriginY="0"/></AoiOrigin></EncodeInfo>'
    )
    label = page(BIG, tissue(90), {270: "Label_Image", 306: "2026:03:14 13:37:23"}, tiled=False)
    label.values[700] = FieldValue(1, len(scan), scan.encode())
    whole = page(BIG, first, {270: "level=0 mag=20 quality=90", 315: MARKER})
    whole.values[700] = FieldValue(1, len(encode), encode.encode())
    small = page(BIG, tissue(96), {270: "Thumbnail"}, tiled=False)
    return view(
        ("x.bif", tiff(BIG, [label, small, whole, page(BIG, second, {270: "level=1 mag=10 quality=90"})]))
    )


def _snake(row: int, column: int) -> int:
    """Number of a tile of four by four: from the bottom, in alternating directions."""
    up = 3 - row
    return up * 4 + (3 - column if up % 2 else column) + 1


def trestle() -> SlideView:
    """Descriptions as key-value pairs, and a macro in a second file."""
    said = f"Background Color=E6E6E6;Objective Power=20;Slide Name={MARKER};User={MARKER};OverlapsXY= 0 0 0 0"
    pages = [page(CLASSIC, one, {270: said, 305: "MedScan 1.0"}) for one in levels()]
    return view(("x.tif", tiff(CLASSIC, pages)), ("x.Full", jpeg(tissue(90))))


def generic() -> SlideView:
    """A pyramid with texts and a picture of a label."""
    first, second = levels()
    pages = [page(CLASSIC, first, _COMMON | {270: MARKER}), page(CLASSIC, second, {}, subfile=1)]
    return view(("x.tif", tiff(CLASSIC, [*pages, page(CLASSIC, tissue(80)[:50], {}, tiled=False)])))


def ome() -> SlideView:
    """Lower levels as sub-directories, people in the XML, a label page."""
    first, second = levels()
    xml = (
        '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">'
        f'<Experimenter ID="Experimenter:0" LastName="{MARKER}"/><Image ID="Image:0" Name="{MARKER}">'
        '<Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="uint8" SizeX="256" SizeY="256" SizeC="3" SizeZ="1" SizeT="1"'
        ' PhysicalSizeX="0.5" PhysicalSizeY="0.5" Interleaved="true"><Channel ID="Channel:0:0" SamplesPerPixel="3"/>'
        f'<TiffData IFD="0" PlaneCount="1"><UUID FileName="{MARKER}">urn:uuid:x</UUID></TiffData></Pixels></Image>'
        f"<StructuredAnnotations><Comment>{MARKER}</Comment></StructuredAnnotations></OME>"
    )
    whole = page(BIG, first, {270: xml, 306: "2026:03:14 13:37:23"})
    whole.subs.append(page(BIG, second, {}, subfile=1))
    return view(("x.ome.tif", tiff(BIG, [whole, page(BIG, tissue(80), {270: "label"}, tiled=False)])))


def akoya(encoding: str = "ascii", mark: bytes = b"") -> SlideView:
    """Every page with its own XML, in an encoding after its byte order mark."""
    said = (
        '<?xml version="1.0" encoding="utf-16"?><PerkinElmer-QPI-ImageDescription><ImageType>{}</ImageType>'
        f"<SlideID>{MARKER}</SlideID><ComputerName>{MARKER}</ComputerName><Objective>20x</Objective>"
        "<ExposureTime>2630</ExposureTime></PerkinElmer-QPI-ImageDescription>"
    )
    first, second = levels()
    pages = [
        page(CLASSIC, first, {305: "PerkinElmer-QPI"}),
        page(CLASSIC, second, {}),
        page(CLASSIC, tissue(80), {}, tiled=False),
    ]
    for one, kind in zip(pages, ("FullResolution", "ReducedResolution", "Label"), strict=True):
        stored = mark + f"{said.format(kind)}\0".encode(encoding)
        one.values[270] = FieldValue(2, len(stored), stored)
    return view(("x.qptiff", tiff(CLASSIC, pages)))


def vms() -> SlideView:
    """An INI, one JPEG of the grid, a map and a macro."""
    picture = tissue(256)
    ini = (
        "[Virtual Microscope Specimen]\r\nNoLayers=1\r\nNoJpegColumns=1\r\nNoJpegRows=1\r\nImageFile=a.jpg\r\n"
        "MapFile=b.jpg\r\nMacroImage=c.jpg\r\nPhysicalWidth=128000\r\nPhysicalHeight=128000\r\nSourceLens=20\r\n"
        f"XOffsetFromSlideCentre=0\r\nYOffsetFromSlideCentre=0\r\nReference={MARKER}\r\nAuthCode={MARKER}\r\n"
    )
    pictures = (("a.jpg", jpeg(picture, restart=8)), ("b.jpg", jpeg(picture[::4, ::4].copy(), restart=8)))
    return view(("x.vms", ini.encode()), *pictures, ("c.jpg", jpeg(tissue(90))))


def mirax() -> SlideView:
    """Slidedat.ini, index, data files and the ``.mrxs`` picture."""
    slide = "A1B2C3D4E5F60718293A4B5C6D7E8F90"
    head = f"01.02{slide}".encode()
    data, rows = bytearray(head + bytes(8)), []
    for level, picture in enumerate(levels()):
        row = []
        for number, tile in enumerate(tiles(picture)):
            across = 4 // 2**level
            image = (number // across * 4 + number % across) * 2**level
            row.append((image, len(data), len(tile), 0))
            data += tile
        rows.append(row)
    other = bytearray(head + bytes(8))
    layers = []
    for picture_bytes in (jpeg(tissue(80)), jpeg(tissue(90)), jpeg(tissue(64))):
        layers.append((len(other), len(picture_bytes), 1))
        other += picture_bytes
    names = ("ScanDataLayer_SlideBarcode", "ScanDataLayer_SlideThumbnail", "ScanDataLayer_SlidePreview")
    ini = [f"[GENERAL]\r\nSLIDE_VERSION = 01.02\r\nSLIDE_ID = {slide}\r\nSLIDE_NAME = {MARKER}"]
    ini += ["IMAGENUMBER_X = 4\r\nIMAGENUMBER_Y = 4\r\nOBJECTIVE_MAGNIFICATION = 20"]
    ini += [
        "CameraImageDivisionsPerSide = 1",
        f"COMPUTER_NAME = {MARKER}",
        "[HIERARCHICAL]",
        "HIER_COUNT = 1",
    ]
    ini += [
        "NONHIER_COUNT = 1",
        "INDEXFILE = Index.dat",
        "HIER_0_NAME = Slide zoom level",
        "HIER_0_COUNT = 2",
    ]
    for level in range(2):
        ini += [
            f"HIER_0_VAL_{level} = ZoomLevel_{level}",
            f"HIER_0_VAL_{level}_SECTION = LAYER_0_LEVEL_{level}_SECTION",
        ]
    ini += ["NONHIER_0_NAME = Scan data layer", "NONHIER_0_COUNT = 3"]
    for number, name in enumerate(names):
        ini += [f"NONHIER_0_VAL_{number} = {name}", f"NONHIER_0_VAL_{number}_SECTION = N_{number}"]
    ini += ["[DATAFILE]", "FILE_COUNT = 2", "FILE_0 = Data0000.dat", "FILE_1 = Data0001.dat"]
    for level in range(2):
        ini += [f"[LAYER_0_LEVEL_{level}_SECTION]", "OVERLAP_X = 0", "OVERLAP_Y = 0", "IMAGE_FORMAT = JPEG"]
        ini += [f"MICROMETER_PER_PIXEL_X = {0.5 * 2**level}", f"MICROMETER_PER_PIXEL_Y = {0.5 * 2**level}"]
        ini += ["IMAGE_FILL_COLOR_BGR = 16777215", "DIGITIZER_WIDTH = 64", "DIGITIZER_HEIGHT = 64"]
        ini += [f"IMAGE_CONCAT_FACTOR = {int(bool(level))}"]
    ini += ["[N_0]", f"BARCODE_VALUE = {MARKER}", "BARCODE_IMAGE_TYPE = JPEG", "[N_1]"]
    ini += ["THUMBNAIL_IMAGE_TYPE = JPEG", "[N_2]", "PREVIEW_IMAGE_TYPE = JPEG"]
    return view(
        ("x.mrxs", jpeg(tissue(90))),
        ("x/Slidedat.ini", "\r\n".join([*ini, ""]).encode()),
        ("x/Index.dat", write_index(head, rows, layers)),
        ("x/Data0000.dat", bytes(data)),
        ("x/Data0001.dat", bytes(other)),
    )


# As a fluorescence microscope writes them: the pixel type of each channel, and its color as eight hex digits.
_ZEISS_CHANNELS = (
    "<Dimensions><Channels>"
    '<Channel Id="Channel:0" Name="DAPI"><PixelType>Gray16</PixelType><Color>#FF00A0F5</Color></Channel>'
    '<Channel Id="Channel:1" Name="EGFP"><PixelType>Gray32Float</PixelType><Color>#FF00FF5B</Color></Channel>'
    "</Channels></Dimensions>"
)


def zeiss() -> SlideView:
    """Four sub-blocks, each with metadata and an attachment; XML, attachments, a deleted segment."""
    picture = tissue(128)
    at, blocks, body = len(czi.file_segment(bytes(16), 0, 0)), [], b""
    for number in range(4):
        y, x = divmod(number, 2)
        tile = np.ascontiguousarray(picture[y * 64 : y * 64 + 64, x * 64 : x * 64 + 64])
        pixels = np.ascontiguousarray(tile[..., ::-1]).tobytes()
        extents = tuple(
            czi.DimensionEntry(name, start, size, 0.0, size)
            for name, start, size in ((b"X", x * 64, 64), (b"Y", y * 64, 64), (b"C", 0, 1), (b"S", 0, 1))
        )
        block = czi.SubBlock(at, 3, 0, 0, extents)
        said = f"<METADATA><Tags><User>{MARKER}</User></Tags></METADATA>".encode()
        fixed = struct.pack("<iiq", len(said), len(MARKER), len(pixels)) + czi.entry_bytes(block, at)
        own = czi.write_segment(b"ZISRAWSUBBLOCK", fixed.ljust(256, b"\0") + said + pixels + MARKER.encode())
        blocks.append((block, at))
        body += own
        at += len(own)
    gone = czi.write_segment(b"DELETED", MARKER.encode())
    attached = czi.write_segment(b"ZISRAWATTACH", bytes(256) + jpeg(tissue(80)) + MARKER.encode())
    listed = czi.write_segment(b"ZISRAWATTDIR", struct.pack("<i", 0).ljust(256, b"\0") + MARKER.encode())
    directory = czi.directory_segment(blocks)
    xml = (
        f"<ImageDocument><Metadata><Information><User><Name>{MARKER}</Name></User><Image><SizeX>128</SizeX>"
        f"<SizeY>128</SizeY><PixelType>Bgr24</PixelType><AcquisitionDateAndTime>2026-03-14</AcquisitionDateAndTime>"
        f"{_ZEISS_CHANNELS}</Image></Information><Scaling><Items><Distance Id='X'><Value>5e-07</Value></Distance></Items></Scaling>"
        f"<AttachmentInfos><Label><Barcode>{MARKER}</Barcode></Label></AttachmentInfos></Metadata></ImageDocument>"
    ).encode()
    tail = at + len(gone) + len(attached)
    places = (tail + len(listed), tail + len(listed) + len(directory), tail)
    head = bytearray(czi.file_segment(MARKER.encode()[:16], places[0], places[1]))
    struct.pack_into("<q", head, 32 + 16 + 32 + 4 + 16 + 4, places[2])
    data = bytes(head) + body + gone + attached + listed + directory + czi.metadata_segment(xml)
    return view(("x.czi", data + MARKER.encode()))


MAKERS: dict[str, Callable[[], SlideView]] = {
    "aperio": aperio,
    "aperio-gt450": aperio_gt450,
    "afi": afi,
    "hamamatsu": hamamatsu,
    "leica": leica,
    "philips": philips,
    "ventana": ventana,
    "trestle": trestle,
    "generic": generic,
    "ome": ome,
    "akoya": akoya,
    "vms": vms,
    "mirax": mirax,
    "zeiss": zeiss,
}
