"""Pictures: textures of smooth noise, and files whose format matches the real data's."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter


def smooth_noise(rng: np.random.Generator, shape: tuple[int, ...], scale: float | Sequence[float]) -> np.ndarray:
    """Noise with mean 0 and standard deviation 1 that is smooth at a scale in pixels; edges wrap around."""
    smooth = gaussian_filter(rng.normal(size=shape), scale, mode="wrap")
    return np.asarray((smooth - smooth.mean()) / smooth.std())


def grey(values: np.ndarray) -> np.ndarray:
    """Values around 0, of a standard deviation near 1, as uint8 pixels around 128."""
    return np.asarray(np.clip(np.rint(128 + 40 * values), 0, 255).astype(np.uint8))


def rgb(values: np.ndarray) -> np.ndarray:
    """Values between 0 and 1, others cut off, as uint8 pixels."""
    return np.asarray(np.clip(np.rint(255 * values), 0, 255).astype(np.uint8))


def jpeg(pixels: np.ndarray | Image.Image, *, quality: int = 90, block: int = 4096) -> bytes:
    """A JPEG file of uint8 pixels, shape (height, width) or (height, width, 3), or of an image in any mode.

    A comment fills it up to a multiple of ``block`` bytes: how well a picture compresses would tell what it shows.

    >>> file = jpeg(np.zeros((8, 16, 3), np.uint8))
    >>> len(file), Image.open(io.BytesIO(file)).size
    (4096, (16, 8))
    """
    buffer = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(buffer, "JPEG", quality=quality, dpi=(72, 72))
    plain = buffer.getvalue()
    filler = b""
    while missing := -(len(plain) + len(filler)) % block:
        size = max(min(missing, 65000) - 4, 0)
        filler += struct.pack(">HH", 0xFFFE, size + 2) + bytes(size)
    return plain[:2] + filler + plain[2:]


def tiff(pixels: np.ndarray) -> bytes:
    """A TIFF file of uint8 pixels without compression: shape (height, width) or (height, width, 3)."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "TIFF")
    return buffer.getvalue()
