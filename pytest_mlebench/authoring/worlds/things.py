"""Pictures of made-up things whose looks are a few numbers, and classes of things that look alike.

A look is a row of eight traits, each with mean 0 and a standard deviation near 1. Where a thing lies, how it is turned
and lit, and what is behind it differs from picture to picture and tells nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, softmax

from .images import rgb, smooth_noise

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
