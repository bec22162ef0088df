"""Pictures: textures of noise, made-up things and classes that look alike, masks, boxes, and files in real formats.

A look is a row of eight traits, each with mean 0 and a standard deviation near 1. Where a thing lies, how it is turned
and lit, and what is behind it differs from picture to picture and tells nothing.
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

    A comment at the end fills it up to a multiple of ``block`` bytes: how well a picture compresses would tell what it
    shows. Nothing before the picture says how long the comment is.

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
    """A TIFF file of uint8 pixels without compression: shape (height, width) or (height, width, 3)."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "TIFF")
    return buffer.getvalue()


TRAITS = ("warm", "fresh", "bright", "stripes", "spots", "lobes", "long", "grain")
"""Three of colour, which are easily seen, and five of pattern and shape."""
COLOURS = 3
_WARM, _FRESH = np.array([0.15, -0.02, -0.11]), np.array([-0.07, 0.12, -0.08])
_FIELD = 512


class Camera:
    """Takes square pictures of things on a ground.

    ``side`` is in pixels. ``body`` and ``ground`` are usual colours, red, green and blue between 0 and 1. ``reach`` is
    how far a thing may lie from the middle, as a share of half the side; ``size`` is its usual radius, likewise.
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
        """A part of a smooth noise, ``fine``, ``coarse``, ``spots`` or ``wide``: shape (side, side)."""
        top, left = rng.integers(_FIELD - self.side, size=2)
        part = self._fields[name][top : top + self.side, left : left + self.side]
        return part.T if rng.random() < 0.5 else part

    def ground(self, rng: np.random.Generator) -> np.ndarray:
        """The ground without a thing on it: shape (side, side, 3), values between 0 and 1."""
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
        """The picture with a thing on it, ``size`` times as large as usual.

        It lies around ``at``, down and to the right of the middle, as shares of half the side.
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
        """Pixels in uint8, shape (side, side, 3): each picture is lit in its own way; the noise is alike in all."""
        cast = rng.uniform(0.9, 1.1) * rng.uniform(0.97, 1.03, 3)
        return rgb(picture * cast + noise * rng.standard_normal(picture.shape, dtype=np.float32))

    def take(self, rng: np.random.Generator, look: np.ndarray) -> np.ndarray:
        """A picture of one thing: uint8, shape (side, side, 3)."""
        return self.develop(self.add(self.ground(rng), rng, look), rng)

    def cut(self, rng: np.random.Generator, look: np.ndarray) -> np.ndarray:
        """As ``take``, up to a fifth of the height and of the width cut off: pictures are of various sizes."""
        height, width = rng.integers(round(0.8 * self.side), self.side + 1, 2)
        return self.take(rng, look)[:height, :width]


@dataclass(frozen=True)
class Things:
    """Things of several classes, with the chances of each class for who sees a part of their traits, or all."""

    classes: np.ndarray
    """The number of each thing's class: shape (things,)."""
    looks: np.ndarray
    """Shape (things, traits)."""
    simple: np.ndarray
    """The chances of the classes for who sees colours alone: shape (things, classes)."""
    ceiling: np.ndarray
    """The chances for who sees all."""


def draw_prototypes(rng: np.random.Generator, count: int, groups: int = 0) -> np.ndarray:
    """What the things of each class look like on average, none too much like another: shape (count, traits).

    With ``groups``, classes share colours: there are so many different ones.
    """
    prototypes = _apart(rng, count, len(TRAITS)) * rng.uniform(0.7, 1.3, len(TRAITS))
    if groups:
        prototypes[:, :COLOURS] = _apart(rng, groups, COLOURS)[rng.permutation(np.arange(count) % groups)]
    return prototypes


def draw_things(rng: np.random.Generator, classes: np.ndarray, prototypes: np.ndarray, *, accuracy: float) -> Things:
    """Things of given classes that look like the prototypes of these, more or less.

    Who sees all traits is right for a share ``accuracy`` of them. Raises ValueError where no spread within the classes
    gives it.

    >>> rng = np.random.default_rng(0)
    >>> prototypes = draw_prototypes(rng, 6, groups=3)
    >>> things = draw_things(rng, rng.integers(6, size=2000), prototypes, accuracy=0.9)
    >>> [round(float((p.argmax(axis=1) == things.classes).mean()), 1) for p in (things.simple, things.ceiling)]
    [0.5, 0.9]
    """
    count = len(prototypes)
    share = np.bincount(classes, minlength=count) / len(classes)
    own = rng.normal(size=(len(classes), len(TRAITS)))

    def chances(spread: float, traits: int) -> np.ndarray:
        gaps = (prototypes[classes] + spread * own)[:, None, :traits] - prototypes[:, :traits]
        return np.asarray(softmax(np.log(share + 1e-12) - (gaps**2).sum(axis=2) / (2 * spread**2), axis=1))

    def excess(spread: float) -> float:
        return float(chances(spread, len(TRAITS)).max(axis=1).mean()) - accuracy

    if excess(0.02) < 0 or excess(20) > 0:
        raise ValueError(f"no spread within the {count} classes gives an accuracy of {accuracy}")
    spread = float(brentq(excess, 0.02, 20))
    looks = prototypes[classes] + spread * own
    looks = (looks - looks.mean(axis=0)) / looks.std(axis=0)
    return Things(classes, looks, chances(spread, COLOURS), chances(spread, len(TRAITS)))


def draw_species(
    rng: np.random.Generator, count: int, images: int, *, below: int, accuracy: float
) -> tuple[np.ndarray, Things]:
    """Numbers of ``count`` species, all less than ``below``, in genera of one or two, and specimens of them.

    The species of a genus have the same colours; some species have several times as many specimens as others.
    """
    numbers = np.sort(rng.choice(below, count, replace=False))
    weights = np.clip(rng.dirichlet(np.full(count, 3)), 0.4 / count, None)
    classes = rng.choice(count, images, p=weights / weights.sum())
    prototypes = draw_prototypes(rng, count, groups=max(2 * count // 3, 2))
    return numbers, draw_things(rng, classes, prototypes, accuracy=accuracy)


def best_names(chances: np.ndarray, names: Sequence[object], count: int) -> list[str]:
    """The most likely names, the best one first, with a space between them: a text for each row of the chances.

    >>> best_names(np.array([[0.1, 0.6, 0.3]]), ["a", "b", "c"], 2)
    ['b c']
    """
    order = np.argsort(-chances, axis=1, kind="stable")[:, :count]
    return [" ".join(str(names[k]) for k in row) for row in order]


def _apart(rng: np.random.Generator, count: int, traits: int) -> np.ndarray:
    """Of some draws of normal prototypes, scaled to standard deviation 1, the one without two that are too alike."""
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
    """A body with a rough outline, as heights in pixels of shape (height, width): above 0 inside.

    ``centre`` and ``radii`` are (y, x) in pixels; ``rough`` is how far the outline strays, as a share of the smaller
    radius, at the scale ``grain`` in pixels.
    """
    smaller = min(radii)
    return np.asarray(ellipse(shape, centre, radii) + rough * smaller * smooth_noise(rng, shape, grain))


def ellipse(shape: tuple[int, int], centre: Sequence[float], radii: Sequence[float]) -> np.ndarray:
    """As ``blob``, but with a smooth outline.

    >>> (ellipse((5, 5), (2, 2), (2, 1)) > 0).astype(int).tolist()[2]
    [0, 0, 1, 0, 0]
    """
    y, x = np.mgrid[: shape[0], : shape[1]]
    distance = np.hypot((y - centre[0]) / radii[0], (x - centre[1]) / radii[1])
    return np.asarray((1 - distance) * min(radii))


def sloppy(rng: np.random.Generator, heights: np.ndarray, off: float, grain: float = 4) -> np.ndarray:
    """What an annotator draws of bodies, whose outline is off by so many pixels (a standard deviation): booleans."""
    return np.asarray(heights + off * smooth_noise(rng, heights.shape, grain) > 0)


def coarse(mask: np.ndarray, scale: float) -> np.ndarray:
    """What is seen of a mask from afar: details below a scale in pixels are lost.

    >>> coarse(np.eye(9), 2).any()
    np.False_
    """
    return np.asarray(gaussian_filter(np.asarray(mask, dtype=float), scale) > 0.5)


def mix_tiles(
    text: str, other: str, shape: tuple[int, int], share: float, rng: np.random.Generator, *, order: Order, tile: int
) -> str:
    """Run lengths of the first mask with a share of its tiles as in the other: where rows are too few to be mixed.

    ``shape`` is (height, width), and ``tile`` the tiles' side in pixels.

    >>> mix_tiles("1 16", "", (4, 4), 0.5, np.random.default_rng(0), order="C", tile=2)
    '1 2 5 2 11 2 15 2'
    """
    first, second = mask_from_rle(text, shape, order), mask_from_rle(other, shape, order)
    rows, columns = -(-shape[0] // tile), -(-shape[1] // tile)
    tiles = rng.permutation(rows * columns).reshape(rows, columns) < share * rows * columns
    taken = np.kron(tiles, np.ones((tile, tile), dtype=bool))[: shape[0], : shape[1]]
    return encode_rle(np.where(taken, second, first), order)


def deal_tiles(text: str, shape: tuple[int, int], rng: np.random.Generator, *, order: Order, tile: int) -> str:
    """Run lengths of a mask whose tiles are dealt out to other places; the sides are multiples of ``tile``.

    >>> deal_tiles("1 2 5 2", (4, 4), np.random.default_rng(0), order="C", tile=2)
    '3 2 7 2'
    """
    mask = mask_from_rle(text, shape, order)
    rows, columns = shape[0] // tile, shape[1] // tile
    tiles = mask.reshape(rows, tile, columns, tile).swapaxes(1, 2).reshape(-1, tile, tile)
    dealt = tiles[rng.permutation(len(tiles))].reshape(rows, columns, tile, tile).swapaxes(1, 2)
    return encode_rle(dealt.reshape(shape), order)


def outline(mask: np.ndarray, centre: Sequence[float], points: int = 24) -> list[list[int]]:
    """The outline of the body of a mask around (y, x), as a closed list of points [x, y].

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
    places = [[int(x[k, reach]), int(y[k, reach])] for k, reach in enumerate(last)]
    return [*places, places[0]]


def redrawn(rng: np.random.Generator, box: Sequence[float], share: float) -> np.ndarray:
    """A box (x0, y0, x1, y1) whose sides are off by a share of its size (a standard deviation).

    >>> redrawn(np.random.default_rng(0), (2, 2, 6, 6), 0.0).tolist()
    [2.0, 2.0, 6.0, 6.0]
    """
    x0, y0, x1, y1 = box
    return np.asarray(np.array(box, dtype=float) + share * rng.normal(size=4) * [x1 - x0, y1 - y0, x1 - x0, y1 - y0])


def prediction(parts: Iterable[tuple[object, float, Sequence[float]]]) -> str:
    """The text of labels, confidences and boxes, separated by spaces.

    >>> prediction([("none", 0.25, (0, 0, 1, 1))])
    'none 0.25 0 0 1 1'
    """
    return " ".join(
        f"{label} {round(float(confidence), 4):g} " + " ".join(f"{round(float(side), 3):g}" for side in box)
        for label, confidence, box in parts
    )


WHOLE = (0, 0, 1, 1)
"""The box of labels that belong to a whole picture."""
