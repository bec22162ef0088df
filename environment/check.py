"""The self-test of an image: `python check.py` runs each library of its environment once, each in a separate process.

It prints a line per library: its version, the time, and the result or the error. The exit status is 1 if one failed.
`python check.py gpus` computes on the container's GPUs, with each library that supports them. No network is needed.
"""

import contextlib
import ctypes
import importlib
import importlib.metadata
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIBRARIES = Path(__file__).with_name("libraries.txt")
SECONDS = 600
TRAINERS = {}
ON_GPU = {}


def trains(module):
    return lambda function: TRAINERS.setdefault(module, function)


def computes(module):
    return lambda function: ON_GPU.setdefault(module, function)


# --- each of these runs a library's main operation once, on generated data


def table():
    import numpy

    x = numpy.random.default_rng(0).normal(size=(200, 4))
    return x, (x[:, 0] + x[:, 1] > 0).astype(int)


def wave():
    import numpy

    return numpy.sin(numpy.arange(8000) * 0.1).astype("float32")


def training_step(model, inputs, *, device="cpu"):
    """Run one step of gradient descent. Fails if the loss is not finite."""
    import torch

    optimizer = torch.optim.AdamW(model.to(device).parameters())
    loss = model(inputs.to(device)).square().mean()
    loss.backward()
    optimizer.step()
    assert torch.isfinite(loss), f"the loss is {loss.item()}"


def language_model():
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16))


@trains("numpy")
def _():
    import numpy

    numpy.linalg.svd(table()[0])


@trains("pandas")
def _():
    import pandas

    x, y = table()
    assert len(pandas.DataFrame(x).assign(y=y).groupby("y").mean()) == 2


@trains("scipy")
def _():
    from scipy.optimize import minimize

    assert minimize(lambda x: (x - 1) @ (x - 1), [0.0, 0.0]).success


@trains("joblib")
def _():
    from joblib import Parallel, delayed

    assert Parallel(n_jobs=2)(delayed(abs)(n) for n in (-1, -2)) == [1, 2]


@trains("sklearn")
def _():
    from sklearn.ensemble import HistGradientBoostingClassifier

    x, y = table()
    assert HistGradientBoostingClassifier(max_iter=5).fit(x, y).score(x, y) > 0.8


@trains("xgboost")
def _(device="cpu"):
    from xgboost import XGBClassifier

    x, y = table()
    assert XGBClassifier(n_estimators=5, device=device).fit(x, y).score(x, y) > 0.8


@trains("lightgbm")
def _():
    from lightgbm import LGBMClassifier

    x, y = table()
    assert LGBMClassifier(n_estimators=5, verbose=-1).fit(x, y).score(x, y) > 0.8


@trains("catboost")
def _(device="CPU"):
    from catboost import CatBoostClassifier

    x, y = table()
    model = CatBoostClassifier(iterations=5, verbose=False, allow_writing_files=False, task_type=device)
    assert model.fit(x, y).score(x, y) > 0.8


@trains("imblearn")
def _():
    from imblearn.over_sampling import SMOTE

    x, y = table()
    SMOTE().fit_resample(x[:150], y[:150])


@trains("iterstrat")
def _():
    import numpy
    from iterstrat.ml_stratifiers import MultilabelStratifiedKFold

    x, y = table()
    assert len(list(MultilabelStratifiedKFold(2).split(x, numpy.stack([y, 1 - y], 1)))) == 2


@trains("statsmodels")
def _():
    import statsmodels.api

    x, y = table()
    statsmodels.api.OLS(y, x).fit().summary()


@trains("polars")
def _():
    import polars

    assert polars.DataFrame({"a": [1, 1, 2]}).group_by("a").len().height == 2


@trains("pyarrow")
def _():
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"a": [1, 2]}), "a.parquet")
    assert parquet.read_table("a.parquet").num_rows == 2


@trains("torch")
def _():
    import torch

    layers = (torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten())
    training_step(torch.nn.Sequential(*layers), torch.randn(2, 3, 8, 8))
    lstm = torch.nn.LSTM(4, 4)
    training_step(torch.nn.Sequential(lstm, Outputs()), torch.randn(5, 2, 4))
    data = torch.utils.data.DataLoader(torch.arange(8), batch_size=4, num_workers=1)
    assert len(list(data)) == 2


def Outputs():
    import torch

    class First(torch.nn.Module):
        def forward(self, values):
            return values[0]

    return First()


@trains("torchvision")
def _():
    import torch
    import torchvision

    training_step(torchvision.models.resnet18(weights=None), torch.randn(2, 3, 64, 64))
    torchvision.ops.nms(torch.tensor([[0.0, 0, 1, 1]]), torch.ones(1), 0.5)


@trains("torchaudio")
def _():
    import soundfile
    import torchaudio

    soundfile.write("a.wav", wave(), 8000)
    sound, rate = torchaudio.load("a.wav")
    torchaudio.transforms.MelSpectrogram(rate, n_mels=16)(sound)


@trains("timm")
def _():
    import timm
    import torch

    training_step(timm.create_model("resnet10t", pretrained=False, num_classes=2), torch.randn(2, 3, 64, 64))


@trains("transformers")
def _():
    import torch

    class Pooled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = language_model()

        def forward(self, tokens):
            return self.model(input_ids=tokens).pooler_output

    training_step(Pooled(), torch.arange(8).reshape(2, 4))


@trains("accelerate")
def _():
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = torch.nn.Linear(2, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
    accelerator.backward(model(torch.ones(1, 2)).sum())
    optimizer.step()


@trains("pytorch_lightning")
def _():
    import pytorch_lightning
    import torch

    class Model(pytorch_lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def training_step(self, batch, index):
            return self.layer(batch).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    trainer = pytorch_lightning.Trainer(fast_dev_run=True, accelerator="cpu", logger=False)
    trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(4, 2)))


@trains("torch_geometric")
def _():
    import torch
    from torch_geometric.nn import GCNConv

    convolution = GCNConv(2, 2)
    convolution(torch.ones(3, 2), torch.tensor([[0, 1], [1, 2]])).sum().backward()


@trains("segmentation_models_pytorch")
def _():
    import segmentation_models_pytorch
    import torch

    training_step(segmentation_models_pytorch.Unet("resnet18", encoder_weights=None), torch.randn(2, 3, 32, 32))


@trains("sentence_transformers")
def _():
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from transformers import BertTokenizerFast

    Path("vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc"]))
    BertTokenizerFast("vocab.txt").save_pretrained("model")
    language_model().save_pretrained("model")
    model = SentenceTransformer(modules=[Transformer("model"), Pooling(16)], device="cpu")
    assert model.encode(["a b", "c"]).shape == (2, 16)


@trains("tensorflow")
def _():
    import tensorflow

    data = tensorflow.data.Dataset.from_tensor_slices(table()).batch(50)
    weights = tensorflow.Variable(tensorflow.zeros([4, 1], "float64"))
    for x, y in data:
        with tensorflow.GradientTape() as tape:
            errors = tensorflow.linalg.matmul(x, weights)[:, 0] - tensorflow.cast(y, x.dtype)
            loss = tensorflow.reduce_mean(errors**2)
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
    assert tensorflow.reduce_any(weights != 0)


@trains("keras")
def _():
    import keras

    x, y = table()
    layers = [keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
    model = keras.Sequential(layers)
    model.compile("adam", "binary_crossentropy")
    model.fit(x, y, epochs=1, verbose=0)


@trains("albumentations")
def _():
    import albumentations
    import numpy

    change = albumentations.Compose([albumentations.HorizontalFlip(p=1), albumentations.RandomCrop(8, 8)])
    assert change(image=numpy.zeros((16, 16, 3), "uint8"))["image"].shape == (8, 8, 3)


@trains("cv2")
def _():
    import cv2
    import numpy

    cv2.imwrite("a.png", numpy.zeros((8, 8, 3), "uint8"))
    assert cv2.resize(cv2.imread("a.png"), (4, 4)).shape == (4, 4, 3)


@trains("PIL")
def _():
    from PIL import Image

    Image.new("RGB", (8, 8)).save("a.jpg")
    assert Image.open("a.jpg").size == (8, 8)


@trains("h5py")
def _():
    import h5py

    with h5py.File("a.h5", "w") as file:
        file["x"] = table()[0]


@trains("tifffile")
def _():
    import numpy
    import tifffile

    tifffile.imwrite("a.tif", numpy.zeros((4, 4), "uint16"), compression="zlib")
    assert tifffile.imread("a.tif").shape == (4, 4)


@trains("skimage")
def _():
    from skimage import filters, measure

    measure.label(filters.gaussian(table()[0]) > 0)


@trains("pycocotools")
def _():
    import numpy
    from pycocotools import mask

    assert mask.area(mask.encode(numpy.ones((2, 2), "uint8", order="F"))) == 4


@trains("shapely")
def _():
    from shapely.geometry import box

    assert box(0, 0, 2, 2).intersection(box(1, 1, 3, 3)).area == 1


@trains("librosa")
def _():
    import librosa

    librosa.feature.mfcc(y=wave(), sr=8000, n_mels=16, n_mfcc=4)


@trains("soundfile")
def _():
    import soundfile

    soundfile.write("a.ogg", wave(), 8000)
    assert soundfile.read("a.ogg")[1] == 8000


@trains("datasets")
def _():
    from datasets import Dataset

    assert Dataset.from_dict({"a": [1, 2]}).map(lambda row: {"b": row["a"]})["b"][:] == [1, 2]


@trains("nltk")
def _():
    from nltk import NaiveBayesClassifier

    assert NaiveBayesClassifier.train([({"a": 1}, "x"), ({"a": 2}, "y")]).classify({"a": 1}) == "x"


@trains("rapidfuzz")
def _():
    from rapidfuzz.distance import Levenshtein

    assert Levenshtein.distance("abc", "abd") == 1


@trains("sentencepiece")
def _():
    import sentencepiece

    Path("a.txt").write_text("one two three four five six seven\n" * 20)
    sentencepiece.SentencePieceTrainer.train(input="a.txt", model_prefix="m", vocab_size=20, minloglevel=2)


@trains("bayes_opt")
def _():
    from bayes_opt import BayesianOptimization

    BayesianOptimization(lambda x: -x * x, {"x": (-1, 1)}, verbose=0).maximize(init_points=2, n_iter=1)


@trains("optuna")
def _():
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    optuna.create_study().optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2, n_trials=3)


@trains("matplotlib")
def _():
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    pyplot.plot([1, 2])
    pyplot.savefig("a.png")


@trains("seaborn")
def _():
    import matplotlib

    matplotlib.use("agg")
    import seaborn

    seaborn.histplot([1, 2, 2])


@trains("numba")
def _():
    import numba

    assert numba.njit(lambda x: x + 1)(1) == 2


@trains("sympy")
def _():
    import sympy

    assert sympy.diff(sympy.Symbol("x") ** 2) == 2 * sympy.Symbol("x")


# --- the same on GPUs


@computes("torch")
def _():
    import torch

    if torch.version.cuda is None or not torch.cuda.is_available():
        raise RuntimeError("torch finds no GPU; the packages for GPUs are in images built with --heavy=cuda")
    for number in range(torch.cuda.device_count()):
        device = f"cuda:{number}"
        square = torch.randn(512, 512, dtype=torch.float64)
        there = (square.to(device) @ square.to(device)).cpu()
        assert torch.allclose(there, square @ square), f"the matrix product on {device} is wrong"
        training_step(torch.nn.Conv2d(3, 4, 3), torch.randn(2, 3, 8, 8), device=device)
    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return f"a matrix product and a convolution on {', '.join(names)}"


@computes("tensorflow")
def _():
    import numpy
    import tensorflow

    gpus = tensorflow.config.list_physical_devices("GPU")
    if not gpus:
        raise RuntimeError("TensorFlow finds no GPU; the packages for GPUs are in images built with --heavy=cuda")
    for number in range(len(gpus)):
        with tensorflow.device(f"/GPU:{number}"):
            square = numpy.random.default_rng(0).normal(size=(512, 512))
            there = tensorflow.linalg.matmul(square, square).numpy()
        assert numpy.allclose(there, square @ square), f"the matrix product on GPU {number} is wrong"
    return f"a matrix product on {len(gpus)} GPU{'s'[: len(gpus) != 1]}"


@computes("xgboost")
def _():
    TRAINERS["xgboost"]("cuda")
    return "trained"


@computes("catboost")
def _():
    TRAINERS["catboost"]("GPU")
    return "trained"


def driver():
    """Report how many GPUs the driver shows in this container. Raises RuntimeError if there are none, or no driver."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise RuntimeError(
            "the container has no NVIDIA driver: install NVIDIA's container toolkit on the host and restart Docker"
        ) from None
    number = ctypes.c_int()
    if status := cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(number)):
        raise RuntimeError(f"the NVIDIA driver does not start in the container (CUDA error {status}): see nvidia-smi")
    if not number.value:
        raise RuntimeError("the NVIDIA driver shows no GPU in the container")
    return f"the driver shows {number.value}"


# --- the list of libraries, and how each is tested


def modules():
    """Return the module of each package in libraries.txt that applies to this machine, by the package's name."""
    from pip._vendor.packaging.requirements import Requirement

    def plain(name):
        return name.lower().replace("_", "-").replace(".", "-")

    owned = {}
    for module, packages in importlib.metadata.packages_distributions().items():
        for package in packages:
            owned.setdefault(plain(package), []).append(module)
    found = {}
    for line in LIBRARIES.read_text().splitlines():
        if not (text := line.partition("#")[0].strip()):
            continue
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate():
            name = plain(requirement.name)
            public = sorted((module for module in owned.get(name, ()) if module.isidentifier()), key=rank(name))
            found[requirement.name] = public[0] if public else name.replace("-", "_")
    return found


def rank(name):
    return lambda module: (module not in TRAINERS, module.startswith("_"), module != name.replace("-", "_"), module)


def try_one(action, module):
    """Test one module in this process, which is used for nothing else. Returns the result as text."""
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        os.environ["HOME"] = work
        if action == "gpus":
            text = driver() if module == "driver" else ON_GPU[module]()
        else:
            importlib.import_module(module)
            text = "works" if module in TRAINERS else "is imported"
            TRAINERS.get(module, lambda: None)()
        os.chdir("/")
    return text


def run(action, module):
    """Test one module in a new process. Returns whether it succeeded, and its result or error in one line."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1", "NO_ALBUMENTATIONS_UPDATE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        # Files instead of pipes: a library's own processes may outlive their parent, and would hold pipes open.
        result, log = Path(folder, "result"), Path(folder, "log")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, __file__, "--one", action, module, result],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
            try:
                status = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                return False, f"takes longer than {SECONDS} s"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if result.exists():
            return status == 0, result.read_text()[:500]
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return False, f"ended by {how}; its last line: {lines[-1][:300] if lines else 'none'}"


def main():
    if sys.argv[1:2] == ["--one"]:
        action, module, result = sys.argv[2:]
        status = 0
        try:
            text = try_one(action, module)
        except BaseException as error:
            text, status = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":"), 1
        Path(result).write_text(text)
        os._exit(status)  # without waiting for threads that a library has started
    gpus = sys.argv[1:] == ["gpus"]
    found = modules()
    if gpus:
        tries = {"driver": "driver"} | {name: module for name, module in found.items() if module in ON_GPU}
    else:
        tries = found
    failed = []
    for name, module in tries.items():
        started = time.monotonic()
        good, text = run("gpus" if gpus else "library", module)
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = ""
        seconds = time.monotonic() - started
        what = f"{'GPU: ' if gpus else ''}{name} {version}".strip()
        print(f"{'ok' if good else 'FAILED':8}{what:42}{seconds:6.1f} s  {text}", flush=True)
        if not good:
            failed.append(name)
            if module == "driver":
                break
    if failed:
        print(f"check: {', '.join(failed)} failed", flush=True)  # on stdout, so that it is the last line
        sys.exit(1)


if __name__ == "__main__":
    main()
