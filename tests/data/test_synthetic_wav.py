import io
import wave

import numpy as np

from pytest_mlebench.authoring.synthetic import wav


def test_a_wav_file_reads_back_as_its_samples() -> None:
    samples = np.array([0, -1, 32767, -32768, 12])
    with wave.open(io.BytesIO(wav(samples, rate=44100))) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 44100)
        assert np.frombuffer(file.readframes(file.getnframes()), "<i2").tolist() == samples.tolist()
