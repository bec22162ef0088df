"""Sounds, and small videos as MP4 files of JPEG images, which common players decode."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence

import numpy as np
from PIL import Image


def tone(
    rng: np.random.Generator, seconds: float, rate: int, pitch: float, overtones: np.ndarray, pulse: float, hiss: float
) -> np.ndarray:
    """Return a tone that swells ``pulse`` times per second: shape (seconds × rate,), standard deviation 1.

    ``pitch`` is in Hz. ``overtones``, of shape (n,), are the weights of its multiples 1 … n. ``hiss`` is the standard
    deviation of the noise relative to the tone's.
    """
    t = np.arange(int(seconds * rate)) / rate
    phases = rng.uniform(0, 2 * np.pi, len(overtones))
    turns = pitch * np.outer(np.arange(1, len(overtones) + 1), t)
    tones = overtones @ np.sin(2 * np.pi * turns + phases[:, None])
    swell = 0.6 + 0.4 * np.sin(2 * np.pi * pulse * t + rng.uniform(0, 2 * np.pi))
    sound = swell * (tones / tones.std() + hiss * rng.normal(size=len(t)))
    return np.asarray(sound / sound.std())


def speech(rng: np.random.Generator, formants: np.ndarray, pitch: float, seconds: float, rate: int) -> np.ndarray:
    """Return a spoken word of consecutive voiced sounds: shape (seconds × rate,), standard deviation 1.

    ``formants``, of shape (sounds, resonances), are each sound's resonances in Hz. ``pitch`` is the speaker's, in Hz.
    """
    t = np.arange(int(seconds * rate)) / rate
    harmonics = pitch * np.arange(1, int(min(4000, rate / 2) / pitch))
    loud = np.exp(-0.5 * ((harmonics[:, None, None] - formants) / 120) ** 2).sum(axis=2)  # (harmonics, sounds)
    place = np.linspace(-0.5, len(formants) - 0.5, len(t)) + rng.normal(0, 0.08)
    sound = np.zeros(len(t))
    for frequency, weights in zip(harmonics, loud, strict=True):
        if weights.max() > 0.05:
            swell = np.interp(place, np.arange(len(formants)), weights)
            sound += swell * np.sin(2 * np.pi * frequency * t + rng.uniform(0, 2 * np.pi))
    return np.asarray(sound / sound.std())


def sweep(seconds: float, rate: int, start: float, end: float) -> np.ndarray:
    """Return a tone of amplitude 1 that glides from ``start`` to ``end`` Hz and fades in and out: (seconds × rate,)."""
    t = np.arange(int(seconds * rate)) / rate
    turns = start * t + (end - start) * t**2 / (2 * seconds)
    return np.asarray(np.sin(2 * np.pi * turns) * np.sin(np.pi * t / seconds) ** 2)


def coloured_noise(rng: np.random.Generator, shape: tuple[int, ...], colour: float) -> np.ndarray:
    """Return noise along the last axis with power ∝ frequency^−``colour`` (0: white), mean 0, standard deviation 1.

    >>> noise = coloured_noise(np.random.default_rng(0), (2, 1000), 1.0)
    >>> noise.shape, round(float(noise.std()), 3)
    ((2, 1000), 1.0)
    """
    spectrum = np.fft.rfft(rng.normal(size=shape))
    weights = np.arange(spectrum.shape[-1]).clip(1) ** (-colour / 2)
    weights[0] = 0
    noise = np.fft.irfft(spectrum * weights, n=shape[-1])
    return np.asarray(noise / noise.std(axis=-1, keepdims=True))


def aiff(samples: np.ndarray, rate: int) -> bytes:
    """Return an AIFF file with one channel: int16 samples of shape (frames,), ``rate`` of them per second."""
    data = samples.astype(">i2").tobytes()
    exponent = rate.bit_length() - 1  # the rate is an 80-bit float, whose leading 1 is explicit
    extended = struct.pack(">HQ", 16383 + exponent, rate << (63 - exponent))
    common = struct.pack(">4sIhIh", b"COMM", 18, 1, len(samples), 16) + extended
    sound = struct.pack(">4sIII", b"SSND", 8 + len(data), 0, 0) + data
    return struct.pack(">4sI4s", b"FORM", 4 + len(common) + len(sound), b"AIFF") + common + sound


_IDENTITY = struct.pack(">9I", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)


def mp4(frames: Sequence[np.ndarray], rate: int) -> bytes:
    """Return a video of uint8 images of shape (height, width) or (height, width, 3), ``rate`` of them per second."""
    samples = [_jpeg(frame) for frame in frames]
    count, height, width = len(samples), *frames[0].shape[:2]
    start = _box(b"ftyp", b"isom\0\0\2\0isomiso2mp41")
    entry = struct.pack(">6xH16xHHIIIH32sHh", 1, width, height, 72 << 16, 72 << 16, 0, 1, b"", 24, -1)
    table = _box(
        b"stbl",
        _full(b"stsd", struct.pack(">I", 1), _box(b"jpeg", entry)),
        _full(b"stts", struct.pack(">3I", 1, count, 1)),
        _full(b"stsc", struct.pack(">4I", 1, 1, count, 1)),
        _full(b"stsz", struct.pack(f">2I{count}I", 0, count, *map(len, samples))),
        _full(b"stco", struct.pack(">2I", 1, len(start) + 8)),
    )
    place = _box(b"dinf", _full(b"dref", struct.pack(">I", 1), _full(b"url ", flags=1)))
    media = _box(
        b"mdia",
        _full(b"mdhd", struct.pack(">4IHH", 0, 0, rate, count, 0x55C4, 0)),
        _full(b"hdlr", b"\0\0\0\0vide" + bytes(12) + b"Video\0"),
        _box(b"minf", _full(b"vmhd", bytes(8), flags=1), place, table),
    )
    track = _full(
        b"tkhd",
        struct.pack(">5I8xhhhH", 0, 0, 1, 0, count, 0, 0, 0, 0) + _IDENTITY,
        struct.pack(">2I", width << 16, height << 16),
        flags=3,
    )
    header = struct.pack(">4IIH10x", 0, 0, rate, count, 1 << 16, 1 << 8) + _IDENTITY + bytes(24) + struct.pack(">I", 2)
    movie = _box(b"moov", _full(b"mvhd", header), _box(b"trak", track, media))
    return start + _box(b"mdat", *samples) + movie


def _jpeg(frame: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(frame).convert("RGB").save(file, "JPEG", quality=80)
    return file.getvalue()


def _box(kind: bytes, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return struct.pack(">I4s", 8 + len(content), kind) + content


def _full(kind: bytes, *parts: bytes, flags: int = 0) -> bytes:
    return _box(kind, struct.pack(">I", flags), *parts)
