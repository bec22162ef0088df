"""Sounds with overtones, swell and hiss."""

from __future__ import annotations

import struct

import numpy as np


def tone(
    rng: np.random.Generator, seconds: float, rate: int, pitch: float, overtones: np.ndarray, pulse: float, hiss: float
) -> np.ndarray:
    """A tone that swells ``pulse`` times a second: shape (seconds × rate,), standard deviation 1.

    ``pitch`` is in Hz; ``overtones`` are the weights of its multiples, shape (n,); ``hiss`` is noise relative to it.
    """
    t = np.arange(int(seconds * rate)) / rate
    phases = rng.uniform(0, 2 * np.pi, len(overtones))
    turns = pitch * np.outer(np.arange(1, len(overtones) + 1), t)
    tones = overtones @ np.sin(2 * np.pi * turns + phases[:, None])
    swell = 0.6 + 0.4 * np.sin(2 * np.pi * pulse * t + rng.uniform(0, 2 * np.pi))
    made = swell * (tones / tones.std() + hiss * rng.normal(size=len(t)))
    return np.asarray(made / made.std())


def speech(rng: np.random.Generator, formants: np.ndarray, pitch: float, seconds: float, rate: int) -> np.ndarray:
    """A word of voiced sounds that follow each other: shape (seconds × rate,), standard deviation 1.

    ``formants`` are the resonances of each sound in Hz, shape (sounds, resonances); ``pitch`` is the speaker's, in Hz.
    """
    t = np.arange(int(seconds * rate)) / rate
    harmonics = pitch * np.arange(1, int(min(4000, rate / 2) / pitch))
    loud = np.exp(-0.5 * ((harmonics[:, None, None] - formants) / 120) ** 2).sum(axis=2)  # (harmonics, sounds)
    place = np.linspace(-0.5, len(formants) - 0.5, len(t)) + rng.normal(0, 0.08)
    made = np.zeros(len(t))
    for frequency, weights in zip(harmonics, loud, strict=True):
        if weights.max() > 0.05:
            swell = np.interp(place, np.arange(len(formants)), weights)
            made += swell * np.sin(2 * np.pi * frequency * t + rng.uniform(0, 2 * np.pi))
    return np.asarray(made / made.std())


def sweep(seconds: float, rate: int, start: float, end: float) -> np.ndarray:
    """A tone that glides from one frequency in Hz to another, and swells and fades: (seconds × rate,), at most 1."""
    t = np.arange(int(seconds * rate)) / rate
    turns = start * t + (end - start) * t**2 / (2 * seconds)
    return np.asarray(np.sin(2 * np.pi * turns) * np.sin(np.pi * t / seconds) ** 2)


def coloured_noise(rng: np.random.Generator, shape: tuple[int, ...], colour: float) -> np.ndarray:
    """Noise whose power falls with the frequency's power ``colour`` (0 is white), along the last axis.

    Mean 0, standard deviation 1.

    >>> noise = coloured_noise(np.random.default_rng(0), (2, 1000), 1.0)
    >>> noise.shape, round(float(noise.std()), 3)
    ((2, 1000), 1.0)
    """
    spectrum = np.fft.rfft(rng.normal(size=shape))
    weights = np.arange(spectrum.shape[-1]).clip(1) ** (-colour / 2)
    weights[0] = 0
    made = np.fft.irfft(spectrum * weights, n=shape[-1])
    return np.asarray(made / made.std(axis=-1, keepdims=True))


def aiff(samples: np.ndarray, rate: int) -> bytes:
    """An AIFF file of one channel: int16 samples of shape (frames,), ``rate`` of them a second."""
    data = samples.astype(">i2").tobytes()
    exponent = rate.bit_length() - 1  # the rate is a number of 80 bits, whose leading one is written
    extended = struct.pack(">HQ", 16383 + exponent, rate << (63 - exponent))
    common = struct.pack(">4sIhIh", b"COMM", 18, 1, len(samples), 16) + extended
    sound = struct.pack(">4sIII", b"SSND", 8 + len(data), 0, 0) + data
    return struct.pack(">4sI4s", b"FORM", 4 + len(common) + len(sound), b"AIFF") + common + sound
