"""Images for twins: noise textures, synthetic objects of similar classes, masks, boxes, and image files.

A look is a row of eight traits (``TRAITS``), each with mean 0 and standard deviation near 1. An object's position,
rotation, lighting and background are random, and reveal nothing about its class.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter
from scipy.optimize import brentq
from scipy.special import expit, softmax

from pytest_mlebench.authoring.rle import Order, encode_rle, mask_from_rle


def smooth_noise(rng: np.random.Generator, shape: tuple[int, ...], scale: float | Sequence[float]) -> np.ndarray:
    """Return noise that is smooth at a ``scale`` in pixels, with mean 0, standard deviation 1 and wrapping edges."""
    smooth = gaussian_filter(rng.normal(size=shape), scale, mode="wrap")
    return np.asarray((smooth - smooth.mean()) / smooth.std())


def grey(values: np.ndarray) -> np.ndarray:
    """Convert values around 0, with standard deviation near 1, to uint8 pixels around 128."""
    return np.asarray(np.clip(np.rint(128 + 40 * values), 0, 255).astype(np.uint8))


def rgb(values: np.ndarray) -> np.ndarray:
    """Convert values between 0 and 1 to uint8 pixels. Other values are clipped."""
    return np.asarray(np.clip(np.rint(255 * values), 0, 255).astype(np.uint8))


def jpeg(pixels: np.ndarray | Image.Image, *, quality: int = 90, block: int = 4096) -> bytes:
    """Encode uint8 pixels of shape (height, width) or (height, width, 3), or a PIL image, as a JPEG file.

    A comment at the end pads the file to a multiple of ``block`` bytes, because the compressed size would reveal the
    content. Nothing before the image data depends on the length of the comment.

    >>> file = jpeg(np.zeros((8, 16, 3), np.uint8))
    >>> len(file), Image.open(io.BytesIO(file)).size
    (4096, (16, 8))
    >>> noise = np.random.default_rng(0).integers(0, 256, (8, 16, 3), dtype=np.uint8)
    >>> jpeg(noise)[:600] == file[:600]
    True
    """
    buffer = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(buffer, "JPEG", quality=quality, dpi=(72, 72))
    plain = buffer.getvalue()
    filler = b""
    while missing := -(len(plain) + len(filler)) % block:
        size = max(min(missing, 65000) - 4, 0)
        filler += struct.pack(">HH", 0xFFFE, size + 2) + bytes(size)
    return plain[:-2] + filler + plain[-2:]


def tiff(pixels: np.ndarray) -> bytes:
    """Encode uint8 pixels of shape (height, width) or (height, width, 3) as an uncompressed TIFF file."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "TIFF")
    return buffer.getvalue()


TRAITS = ("warm", "fresh", "bright", "stripes", "spots", "lobes", "long", "grain")
"""Names of an object's traits: three of colour, which are easy to see, and five of pattern and shape."""
COLOURS = 3
_WARM, _FRESH = np.array([0.15, -0.02, -0.11]), np.array([-0.07, 0.12, -0.08])
_FIELD = 512


class Camera:
    """Renders square images of objects on a background.

    ``side`` is in pixels. ``body`` and ``ground`` are the average colours of objects and background: red, green and
    blue between 0 and 1. ``reach`` (maximum offset of an object from the centre) and ``size`` (average radius) are
    shares of half the side. ``clutter`` is the contrast of the background.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        side: int,
        *,
        body: tuple[float, float, float] = (0.55, 0.52, 0.48),
        ground: tuple[float, float, float] = (0.42, 0.44, 0.40),
        reach: float = 0.3,
        size: float = 0.6,
        clutter: float = 0.07,
    ) -> None:
        self.side, self._reach, self._size, self._clutter = side, reach, size, clutter
        self._body, self._ground = np.array(body), np.array(ground)
        unit = side / 64
        scales = {"fine": 0.6, "coarse": 1.6 * unit**0.5, "spots": 1.5 * unit**0.5, "wide": 9 * unit}
        self._fields = {name: smooth_noise(rng, (_FIELD, _FIELD), scale) for name, scale in scales.items()}
        self._grid = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]

    def field(self, rng: np.random.Generator, name: str) -> np.ndarray:
        """Return a random part of the ``fine``, ``coarse``, ``spots`` or ``wide`` noise: shape (side, side)."""
        top, left = rng.integers(_FIELD - self.side, size=2)
        part = self._fields[name][top : top + self.side, left : left + self.side]
        return part.T if rng.random() < 0.5 else part

    def ground(self, rng: np.random.Generator) -> np.ndarray:
        """Return the background without an object: shape (side, side, 3), values around ``ground``."""
        shade = self._clutter * (1.3 * self.field(rng, "wide") + 0.5 * self.field(rng, "coarse"))
        return np.asarray(self._ground + rng.normal(0, 0.04, 3) + shade[..., None])

    def add(
        self,
        picture: np.ndarray,
        rng: np.random.Generator,
        look: np.ndarray,
        *,
        size: float = 1.0,
        at: tuple[float, float] = (0.0, 0.0),
    ) -> np.ndarray:
        """Return the image with an object of a ``look``, of shape (traits,), ``size`` times as large as usual.

        ``at`` is the offset of the object's average position from the centre (down, right), as shares of half the side.
        """
        warm, fresh, bright, stripes, spots, lobes, long, grain = np.clip(look, -2.5, 2.5)
        centre = np.array(at) + rng.uniform(-self._reach, self._reach, 2)
        angle, phase = rng.uniform(0, 2 * np.pi, 2)
        y, x = self._grid - centre[:, None, None]
        along, across = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
        stretch = np.exp(0.16 * long)
        rho, theta = np.hypot(along / stretch, across * stretch), np.arctan2(across * stretch, along / stretch)
        outline = 1 + 0.3 * expit(1.3 * lobes) * np.cos(5 * theta + phase)
        radius = size * self._size * rng.uniform(0.85, 1.15) * outline
        inside = np.clip((radius - rho) * self.side / 4 + 0.5, 0, 1)
        share = expit(1.5 * grain)
        shade = share * self.field(rng, "coarse") + (1 - share) * self.field(rng, "fine")
        shade = 0.07 * shade / np.hypot(share, 1 - share)
        shade = shade + 0.15 * expit(1.3 * stripes) * np.sin(np.pi * 12 * along + phase)
        spotted = np.clip(4 * (self.field(rng, "spots") - 1.3 + 0.5 * spots), 0, 1)
        body = self._body + _WARM * warm + _FRESH * fresh + 0.09 * bright + shade[..., None]
        body = body * (1 - 0.55 * spotted[..., None])
        return np.asarray(picture + inside[..., None] * (body - picture))

    def develop(self, picture: np.ndarray, rng: np.random.Generator, noise: float = 0.03) -> np.ndarray:
        """Convert an image to uint8 pixels of shape (side, side, 3), with random lighting and added ``noise``."""
        cast = rng.uniform(0.9, 1.1) * rng.uniform(0.97, 1.03, 3)
        return rgb(picture * cast + noise * rng.standard_normal(picture.shape, dtype=np.float32))

    def take(self, rng: np.random.Generator, look: np.ndarray) -> np.ndarray:
        """Return an image of one object: uint8, shape (side, side, 3)."""
        return self.develop(self.add(self.ground(rng), rng, look), rng)

    def cut(self, rng: np.random.Generator, look: np.ndarray) -> np.ndarray:
        """Return an image as ``take`` does, cropped by up to a fifth in height and width, so that sizes vary."""
        height, width = rng.integers(round(0.8 * self.side), self.side + 1, 2)
        return self.take(rng, look)[:height, :width]


@dataclass(frozen=True)
class Things:
    """Objects of several classes, with the class probabilities for an observer of some or all of their traits."""

    classes: np.ndarray
    """The index of each object's class: shape (objects,)."""
    looks: np.ndarray
    """Shape (objects, traits)."""
    simple: np.ndarray
    """The class probabilities given only the colours: shape (objects, classes)."""
    ceiling: np.ndarray
    """The class probabilities given all traits: shape (objects, classes)."""


def draw_prototypes(rng: np.random.Generator, count: int, groups: int = 0) -> np.ndarray:
    """Draw the average look of each class, so that no two are too similar: shape (count, traits).

    With ``groups``, there are only that many different colours, which classes share.
    """
    prototypes = _apart(rng, count, len(TRAITS)) * rng.uniform(0.7, 1.3, len(TRAITS))
    if groups:
        prototypes[:, :COLOURS] = _apart(rng, groups, COLOURS)[rng.permutation(np.arange(count) % groups)]
    return prototypes


def draw_things(rng: np.random.Generator, classes: np.ndarray, prototypes: np.ndarray, *, accuracy: float) -> Things:
    """Draw objects of the given ``classes``, of shape (objects,), that resemble the classes' prototypes.

    The best possible accuracy, given all traits, is ``accuracy``. Raises ValueError if no spread within the classes
    gives this accuracy.

    >>> rng = np.random.default_rng(0)
    >>> prototypes = draw_prototypes(rng, 6, groups=3)
    >>> things = draw_things(rng, rng.integers(6, size=2000), prototypes, accuracy=0.9)
    >>> [round(float((p.argmax(axis=1) == things.classes).mean()), 1) for p in (things.simple, things.ceiling)]
    [0.5, 0.9]
    """
    count = len(prototypes)
    share = np.bincount(classes, minlength=count) / len(classes)
    noise = rng.normal(size=(len(classes), len(TRAITS)))

    def chances(spread: float, traits: int) -> np.ndarray:
        gaps = (prototypes[classes] + spread * noise)[:, None, :traits] - prototypes[:, :traits]
        return np.asarray(softmax(np.log(share + 1e-12) - (gaps**2).sum(axis=2) / (2 * spread**2), axis=1))

    def excess(spread: float) -> float:
        return float(chances(spread, len(TRAITS)).max(axis=1).mean()) - accuracy

    if excess(0.02) < 0 or excess(20) > 0:
        raise ValueError(f"no spread within the {count} classes gives an accuracy of {accuracy}")
    spread = float(brentq(excess, 0.02, 20))
    looks = prototypes[classes] + spread * noise
    looks = (looks - looks.mean(axis=0)) / looks.std(axis=0)
    return Things(classes, looks, chances(spread, COLOURS), chances(spread, len(TRAITS)))


def draw_species(
    rng: np.random.Generator, count: int, images: int, *, below: int, accuracy: float
) -> tuple[np.ndarray, Things]:
    """Draw ``count`` species and ``images`` specimens; returns the species' sorted numbers, and the specimens.

    Numbers are less than ``below``. Species of one genus (one or two species) have the same colours. Some species have
    several times as many specimens as others. ``accuracy`` is that of ``draw_things``.
    """
    numbers = np.sort(rng.choice(below, count, replace=False))
    weights = np.clip(rng.dirichlet(np.full(count, 3)), 0.4 / count, None)
    classes = rng.choice(count, images, p=weights / weights.sum())
    prototypes = draw_prototypes(rng, count, groups=max(2 * count // 3, 2))
    return numbers, draw_things(rng, classes, prototypes, accuracy=accuracy)


def best_names(chances: np.ndarray, names: Sequence[object], count: int) -> list[str]:
    """Return the ``count`` most likely names for each row of ``chances``, best first, separated by spaces.

    >>> best_names(np.array([[0.1, 0.6, 0.3]]), ["a", "b", "c"], 2)
    ['b c']
    """
    order = np.argsort(-chances, axis=1, kind="stable")[:, :count]
    return [" ".join(str(names[k]) for k in row) for row in order]


def _apart(rng: np.random.Generator, count: int, traits: int) -> np.ndarray:
    """Draw normal prototypes, scaled to standard deviation 1, and keep the draw with the largest minimum distance."""
    best, distance = np.zeros((count, traits)), -1.0
    for _ in range(20):
        drawn = rng.normal(size=(count, traits))
        drawn = (drawn - drawn.mean(axis=0)) / (drawn.std(axis=0) + 1e-9)
        gaps = np.linalg.norm(drawn[:, None] - drawn, axis=2) + 1e9 * np.eye(count)
        if gaps.min() > distance:
            best, distance = drawn, float(gaps.min())
    return best


def blob(
    rng: np.random.Generator,
    shape: tuple[int, int],
    centre: Sequence[float],
    radii: Sequence[float],
    rough: float = 0.15,
    grain: float = 4,
) -> np.ndarray:
    """Return a body with a rough outline, as heights of shape (height, width), which are positive inside.

    ``centre`` and ``radii`` are (y, x) in pixels. ``rough`` is the deviation of the outline, as a share of the smaller
    radius, at the scale ``grain`` in pixels.
    """
    smaller = min(radii)
    return np.asarray(ellipse(shape, centre, radii) + rough * smaller * smooth_noise(rng, shape, grain))


def ellipse(shape: tuple[int, int], centre: Sequence[float], radii: Sequence[float]) -> np.ndarray:
    """Return a body as ``blob`` does, but with a smooth outline.

    >>> (ellipse((5, 5), (2, 2), (2, 1)) > 0).astype(int).tolist()[2]
    [0, 0, 1, 0, 0]
    """
    y, x = np.mgrid[: shape[0], : shape[1]]
    distance = np.hypot((y - centre[0]) / radii[0], (x - centre[1]) / radii[1])
    return np.asarray((1 - distance) * min(radii))


def sloppy(rng: np.random.Generator, heights: np.ndarray, off: float, grain: float = 4) -> np.ndarray:
    """Return a sloppy annotator's boolean mask of bodies: the outline has a standard deviation of ``off`` pixels."""
    return np.asarray(heights + off * smooth_noise(rng, heights.shape, grain) > 0)


def coarse(mask: np.ndarray, scale: float) -> np.ndarray:
    """Return a mask without details smaller than ``scale`` pixels.

    >>> coarse(np.eye(9), 2).any()
    np.False_
    """
    return np.asarray(gaussian_filter(np.asarray(mask, dtype=float), scale) > 0.5)


def mix_tiles(
    text: str, other: str, shape: tuple[int, int], share: float, rng: np.random.Generator, *, order: Order, tile: int
) -> str:
    """Return the run lengths of a mask with a random share of its tiles taken from another mask.

    Use it if there are too few rows to mix. ``shape`` is (height, width), ``tile`` the tiles' side in pixels.

    >>> mix_tiles("1 16", "", (4, 4), 0.5, np.random.default_rng(0), order="C", tile=2)
    '1 2 5 2 11 2 15 2'
    """
    first, second = mask_from_rle(text, shape, order), mask_from_rle(other, shape, order)
    rows, columns = -(-shape[0] // tile), -(-shape[1] // tile)
    tiles = rng.permutation(rows * columns).reshape(rows, columns) < share * rows * columns
    taken = np.kron(tiles, np.ones((tile, tile), dtype=bool))[: shape[0], : shape[1]]
    return encode_rle(np.where(taken, second, first), order)


def deal_tiles(text: str, shape: tuple[int, int], rng: np.random.Generator, *, order: Order, tile: int) -> str:
    """Return the run lengths of a mask with shuffled tiles. Height and width must be multiples of ``tile``.

    >>> deal_tiles("1 2 5 2", (4, 4), np.random.default_rng(0), order="C", tile=2)
    '3 2 7 2'
    """
    mask = mask_from_rle(text, shape, order)
    rows, columns = shape[0] // tile, shape[1] // tile
    tiles = mask.reshape(rows, tile, columns, tile).swapaxes(1, 2).reshape(-1, tile, tile)
    dealt = tiles[rng.permutation(len(tiles))].reshape(rows, columns, tile, tile).swapaxes(1, 2)
    return encode_rle(dealt.reshape(shape), order)


def outline(mask: np.ndarray, centre: Sequence[float], points: int = 24) -> list[list[int]]:
    """Return the outline of a mask's body around ``centre`` (y, x), as a closed list of points [x, y].

    >>> outline(np.ones((5, 5), bool), (2, 2), points=4)
    [[4, 2], [2, 4], [0, 2], [2, 0], [4, 2]]
    """
    turns = 2 * np.pi * np.arange(points) / points
    far = np.arange(max(mask.shape) + 1)
    y = np.rint(centre[0] + np.sin(turns)[:, None] * far).astype(int)
    x = np.rint(centre[1] + np.cos(turns)[:, None] * far).astype(int)
    inside = (y >= 0) & (y < mask.shape[0]) & (x >= 0) & (x < mask.shape[1])
    inside &= mask[np.clip(y, 0, mask.shape[0] - 1), np.clip(x, 0, mask.shape[1] - 1)]
    last = np.maximum(np.argmin(inside, axis=1) - 1, 0)
    corners = [[int(x[k, reach]), int(y[k, reach])] for k, reach in enumerate(last)]
    return [*corners, corners[0]]


def redrawn(rng: np.random.Generator, box: Sequence[float], share: float) -> np.ndarray:
    """Return a box (x0, y0, x1, y1) with noise in its sides, whose standard deviation is a share of the box's size.

    >>> redrawn(np.random.default_rng(0), (2, 2, 6, 6), 0.0).tolist()
    [2.0, 2.0, 6.0, 6.0]
    """
    x0, y0, x1, y1 = box
    return np.asarray(np.array(box, dtype=float) + share * rng.normal(size=4) * [x1 - x0, y1 - y0, x1 - x0, y1 - y0])


def prediction(parts: Iterable[tuple[object, float, Sequence[float]]]) -> str:
    """Return a prediction string of labels, confidences and boxes, separated by spaces.

    >>> prediction([("none", 0.25, (0, 0, 1, 1))])
    'none 0.25 0 0 1 1'
    """
    return " ".join(
        f"{label} {round(float(confidence), 4):g} " + " ".join(f"{round(float(side), 3):g}" for side in box)
        for label, confidence, box in parts
    )


WHOLE = (0, 0, 1, 1)
"""The box of labels that apply to a whole image."""
