"""Medical scans: images of chests and tubes, and DICOM and NIfTI files that common libraries can read.

File sizes do not depend on the image's content, because the size of a compressed image could reveal its label.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Sequence

import numpy as np
from scipy.ndimage import gaussian_filter

from pytest_mlebench.authoring.worlds import images
from pytest_mlebench.authoring.worlds.images import smooth_noise

ROOT = "1.2.826.0.1.3680043.8.498."
_TAGS = {
    "SOPClassUID": (0x0008, 0x0016, "UI"),
    "SOPInstanceUID": (0x0008, 0x0018, "UI"),
    "Modality": (0x0008, 0x0060, "CS"),
    "SeriesDescription": (0x0008, 0x103E, "LO"),
    "PatientID": (0x0010, 0x0020, "LO"),
    "PatientSex": (0x0010, 0x0040, "CS"),
    "PatientAge": (0x0010, 0x1010, "AS"),
    "BodyPartExamined": (0x0018, 0x0015, "CS"),
    "SliceThickness": (0x0018, 0x0050, "DS"),
    "StudyInstanceUID": (0x0020, 0x000D, "UI"),
    "SeriesInstanceUID": (0x0020, 0x000E, "UI"),
    "InstanceNumber": (0x0020, 0x0013, "IS"),
    "ImagePositionPatient": (0x0020, 0x0032, "DS"),
    "ImageOrientationPatient": (0x0020, 0x0037, "DS"),
    "ImageLaterality": (0x0020, 0x0062, "CS"),
    "SamplesPerPixel": (0x0028, 0x0002, "US"),
    "PhotometricInterpretation": (0x0028, 0x0004, "CS"),
    "PlanarConfiguration": (0x0028, 0x0006, "US"),
    "Rows": (0x0028, 0x0010, "US"),
    "Columns": (0x0028, 0x0011, "US"),
    "PixelSpacing": (0x0028, 0x0030, "DS"),
    "BitsAllocated": (0x0028, 0x0100, "US"),
    "BitsStored": (0x0028, 0x0101, "US"),
    "HighBit": (0x0028, 0x0102, "US"),
    "PixelRepresentation": (0x0028, 0x0103, "US"),
    "RescaleIntercept": (0x0028, 0x1052, "DS"),
    "RescaleSlope": (0x0028, 0x1053, "DS"),
}
"""The supported elements of a DICOM file: group, element and value representation, in ascending order."""
_EXPLICIT, _BASELINE_JPEG = "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.4.50"
_STORAGE = {
    "CR": "1.2.840.10008.5.1.4.1.1.1",
    "CT": "1.2.840.10008.5.1.4.1.1.2",
    "MG": "1.2.840.10008.5.1.4.1.1.1.2",
    "MR": "1.2.840.10008.5.1.4.1.1.4",
    "XC": "1.2.840.10008.5.1.4.1.1.77.1.4",
}

Value = str | int


def uid(rng: np.random.Generator) -> str:
    """Return a random unique identifier for a DICOM object; all have the same length.

    >>> len(uid(np.random.default_rng(0)))
    64
    """
    return ROOT + str(rng.integers(1, 10)) + "".join(map(str, rng.integers(0, 10, 37)))


def jpeg(pixels: np.ndarray, length: int, quality: int = 90) -> bytes:
    """Deprecated alias of ``images.jpeg`` with ``block=length``."""
    warnings.warn("scans.jpeg is now images.jpeg; version 0.4 removes the old name", DeprecationWarning, stacklevel=2)
    return images.jpeg(pixels, quality=quality, block=length)


def dicom(pixels: np.ndarray, modality: str, instance: str, *, encoded: bytes = b"", **elements: Value) -> bytes:
    """Return a DICOM file of uint8 or uint16 pixels of shape (height, width), or uint8 of shape (height, width, 3).

    ``modality`` is CR, CT, MG, MR or XC (photographs); ``instance`` is the object's identifier. ``encoded`` is a JPEG
    file of the same image, which is stored instead of the pixels. Other elements are passed by keyword; multiple values
    are separated by backslashes.

    >>> dicom(np.zeros((4, 4), np.uint16), "MR", "1.2.3", InstanceNumber=7)[128:132]
    b'DICM'
    """
    kind, syntax = _STORAGE[modality], _BASELINE_JPEG if encoded else _EXPLICIT
    bits = 8 * pixels.dtype.itemsize
    colours = 1 if pixels.ndim == 2 else 3
    values: dict[str, Value] = {
        **elements,
        "SOPClassUID": kind,
        "SOPInstanceUID": instance,
        "Modality": modality,
        "SamplesPerPixel": colours,
        "PhotometricInterpretation": "MONOCHROME2" if colours == 1 else "YBR_FULL_422" if encoded else "RGB",
        **({} if colours == 1 else {"PlanarConfiguration": 0}),
        "Rows": pixels.shape[0],
        "Columns": pixels.shape[1],
        "BitsAllocated": bits,
        "BitsStored": bits,
        "HighBit": bits - 1,
        "PixelRepresentation": 0,
    }
    body = b"".join(_element(*_TAGS[name], values[name]) for name in sorted(values, key=lambda name: _TAGS[name]))
    meta = struct.pack("<HH2sHI2s", 2, 1, b"OB", 0, 2, b"\0\1") + b"".join(
        _element(2, number, "UI", text) for number, text in ((2, kind), (3, instance), (16, syntax), (18, ROOT + "1"))
    )
    head = bytes(128) + b"DICM" + struct.pack("<HH2sHI", 2, 0, b"UL", 4, len(meta)) + meta
    return head + body + _pixel_data(pixels, encoded)


def _element(group: int, number: int, kind: str, value: Value) -> bytes:
    if kind == "US":
        content = struct.pack("<H", value)
    else:
        content = str(value).encode("ascii")
        content += (b"\0" if kind == "UI" else b" ") * (len(content) % 2)
    return struct.pack("<HH2sH", group, number, kind.encode(), len(content)) + content


def _pixel_data(pixels: np.ndarray, encoded: bytes) -> bytes:
    content = encoded or np.ascontiguousarray(pixels.astype(pixels.dtype.newbyteorder("<"))).tobytes()
    content += bytes(len(content) % 2)
    if encoded:  # an empty offset table, the image, and the end of the sequence
        items = struct.pack("<HHIHHI", 0xFFFE, 0xE000, 0, 0xFFFE, 0xE000, len(content)) + content
        items += struct.pack("<HHI", 0xFFFE, 0xE0DD, 0)
        return struct.pack("<HH2sHI", 0x7FE0, 0x10, b"OB", 0, 0xFFFFFFFF) + items
    return struct.pack("<HH2sHI", 0x7FE0, 0x10, b"OB" if pixels.dtype == np.uint8 else b"OW", 0, len(content)) + content


def nifti(volume: np.ndarray, spacing: Sequence[float] = (1, 1, 1)) -> bytes:
    """Return a NIfTI-1 file (``.nii``) of a uint8 volume of shape (x, y, z); ``spacing`` is in millimetres.

    >>> len(nifti(np.zeros((4, 5, 6), np.uint8)))
    472
    """
    head = struct.pack("<i36x8h", 348, 3, *volume.shape, 1, 1, 1, 1)
    head = head.ljust(70, b"\0") + struct.pack("<hhh8f", 2, 8, 0, 1, *spacing, 0, 0, 0, 0)
    head = head.ljust(108, b"\0") + struct.pack("<fff", 352, 1, 0)
    head = head.ljust(123, b"\0") + b"\2"
    head = head.ljust(252, b"\0") + struct.pack("<hh", 0, 1)  # the affine transformation is given by rows
    rows = [[-spacing[0], 0, 0, 0], [0, -spacing[1], 0, 0], [0, 0, spacing[2], 0]]
    head = head.ljust(280, b"\0") + struct.pack("<12f", *np.ravel(rows))
    return head.ljust(344, b"\0") + b"n+1\0" + bytes(4) + volume.astype(np.uint8).tobytes("F")


def deep(values: np.ndarray, bits: int = 12) -> np.ndarray:
    """Convert values around 0, with standard deviation near 1, to uint16 pixels around a third of the ``bits``' range.

    >>> deep(np.array([-9.0, 0.0, 9.0])).tolist()
    [0, 1365, 4095]
    """
    top = 2**bits - 1
    return np.asarray(np.clip(np.rint(top / 3 + top / 10 * values), 0, top).astype(np.uint16))


def tube(shape: tuple[int, int], points: Sequence[Sequence[float]], width: float) -> np.ndarray:
    """Return the brightness, from 0 to 1, of a tube through points: shape (height, width).

    ``points`` are (x, y) as shares of the image's width and height. Parts outside of the image are not visible.
    """
    height, across = shape
    places = np.array(points, dtype=float)
    steps = np.linspace(0, len(places) - 1, 4 * (height + across))
    x, y = (np.interp(steps, np.arange(len(places)), column) for column in places.T)
    row, column = np.floor(y * height).astype(int), np.floor(x * across).astype(int)
    seen = (row >= 0) & (row < height) & (column >= 0) & (column < across)
    line = np.zeros(shape)
    line[row[seen], column[seen]] = 1
    blurred = gaussian_filter(line, width)
    return np.asarray(np.minimum(blurred * width * 2.5, 1))


def chest(rng: np.random.Generator, side: int) -> np.ndarray:
    """Return a random chest radiograph, dark for air: shape (side, side), mean near 0, standard deviation near 1."""
    y, x = np.mgrid[:side, :side] / side - 0.5
    x, y = x - rng.normal(0, 0.015), y - rng.normal(0, 0.015)
    scale = rng.uniform(0.94, 1.06)
    lungs = sum(np.exp(-((((x - s * 0.22) / 0.14) ** 2 + ((y + 0.02) / 0.3) ** 2) ** 2)) for s in (-scale, scale))
    spine = np.exp(-((x / 0.06) ** 2))
    heart = np.exp(-(((x - 0.08) / 0.13) ** 2 + ((y - 0.16) / 0.15) ** 2))
    ribs = np.cos(2 * np.pi * (y + 0.35 * np.abs(x)) / rng.uniform(0.1, 0.12) + rng.uniform(0, 2 * np.pi))
    seen = 0.8 - 1.8 * lungs + 0.5 * spine + rng.uniform(0.5, 0.9) * heart + 0.15 * ribs * lungs
    seen = (
        seen + 0.15 * smooth_noise(rng, (side, side), side / 16) + rng.uniform(0.1, 0.2) * rng.normal(size=seen.shape)
    )
    return np.asarray(rng.uniform(0.85, 1.15) * seen + rng.normal(0, 0.15))
