from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import standard, write_zipped_csv

NAMES = """Acer_Capillipes Acer_Circinatum Acer_Mono Acer_Opalus Acer_Palmatum Acer_Pictum Acer_Platanoids Acer_Rubrum
Acer_Rufinerve Acer_Saccharinum Alnus_Cordata Alnus_Maximowiczii Alnus_Rubra Alnus_Sieboldiana Alnus_Viridis
Arundinaria_Simonii Betula_Austrosinensis Betula_Pendula Callicarpa_Bodinieri Castanea_Sativa Celtis_Koraiensis
Cercis_Siliquastrum Cornus_Chinensis Cornus_Controversa Cornus_Macrophylla Cotinus_Coggygria Crataegus_Monogyna
Cytisus_Battandieri Eucalyptus_Glaucescens Eucalyptus_Neglecta Eucalyptus_Urnigera Fagus_Sylvatica Ginkgo_Biloba
Ilex_Aquifolium Ilex_Cornuta Liquidambar_Styraciflua Liriodendron_Tulipifera Lithocarpus_Cleistocarpus
Lithocarpus_Edulis Magnolia_Heptapeta Magnolia_Salicifolia Morus_Nigra Olea_Europaea Phildelphus Populus_Adenopoda
Populus_Grandidentata Populus_Nigra Prunus_Avium Prunus_X_Shmittii Pterocarya_Stenoptera Quercus_Afares
Quercus_Agrifolia Quercus_Alnifolia Quercus_Brantii Quercus_Canariensis Quercus_Castaneifolia Quercus_Cerris
Quercus_Chrysolepis Quercus_Coccifera Quercus_Coccinea Quercus_Crassifolia Quercus_Crassipes Quercus_Dolicholepis
Quercus_Ellipsoidalis Quercus_Greggii Quercus_Hartwissiana Quercus_Ilex Quercus_Imbricaria Quercus_Infectoria_sub
Quercus_Kewensis Quercus_Nigra Quercus_Palustris Quercus_Phellos Quercus_Phillyraeoides Quercus_Pontica
Quercus_Pubescens Quercus_Pyrenaica Quercus_Rhysophylla Quercus_Rubra Quercus_Semecarpifolia Quercus_Shumardii
Quercus_Suber Quercus_Texana Quercus_Trojana Quercus_Variabilis Quercus_Vulcanica Quercus_x_Hispanica
Quercus_x_Turneri Rhododendron_x_Russellianum Salix_Fragilis Salix_Intergra Sorbus_Aria Tilia_Oliveri
Tilia_Platyphyllos Tilia_Tomentosa Ulmus_Bergmanniana Viburnum_Tinus Viburnum_x_Rhytidophylloides
Zelkova_Serrata"""
SPECIES = NAMES.split()


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 140, 20
    ids = np.sort(rng.choice(np.arange(1, 1585), n + n_test, replace=False))
    is_test = np.zeros(n + n_test, bool)
    is_test[rng.choice(n + n_test, n_test, replace=False)] = True
    species = np.r_[np.array(SPECIES), rng.choice(SPECIES, n - len(SPECIES))]
    rng.shuffle(species)
    leaves = pd.DataFrame({"id": ids})
    for kind in ("margin", "shape", "texture"):
        for k in range(1, 4):
            leaves[f"{kind}{k}"] = np.round(rng.gamma(1, 0.01, n + n_test), 6)
    leaves["shape1"] = rng.random(n + n_test) / 300  # full precision
    train, test = leaves[~is_test].copy(), leaves[is_test]
    train.insert(1, "species", species)
    images = {f"images/{id}.jpg": b"\xff\xd8leaf%d-%d\xff\xd9" % (id, rng.integers(1000)) for id in ids}
    sample = test[["id"]].assign(**dict.fromkeys(SPECIES, 0.0101))
    write_zip(raw / "images.zip", {"images/": b"", **images})
    for name, table in (("train.csv", train), ("test.csv", test), ("sample_submission.csv", sample)):
        write_zipped_csv(raw / f"{name}.zip", table, name)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    truth = answers[SPECIES].to_numpy()
    n, m = truth.shape
    # thousandths that sum to one, in part on the true species; some are zero
    milli = rng.multinomial(300, np.full(m, 1 / m), n) + rng.integers(0, 700, (n, 1)) * truth
    milli[np.arange(n), rng.integers(0, m, n)] += 1000 - milli.sum(1)

    def table(probabilities: np.ndarray) -> pd.DataFrame:
        return answers[["id"]].join(pd.DataFrame(probabilities, columns=SPECIES))

    noisy = table(milli / 1000)
    first = noisy[SPECIES].iloc[0]
    big, zero = first.idxmax(), first[first == 0].index[0]

    def first_row(**values: Any) -> pd.DataFrame:
        return noisy.assign(**{name: [value, *noisy[name].iloc[1:]] for name, value in values.items()})

    return {
        **standard(noisy, "id", 99999, "Zelkova_Serrata", "missing_column"),
        "column_order": noisy[["id", *SPECIES[::-1]]],
        "all_wrong": table(np.roll(truth, 1, axis=1)),
        "nearly_one": first_row(**{big: first[big] + 1.0e-5}),  # within the tolerance
        "sum_off": first_row(**{big: first[big] + 1.3e-5}),  # just outside
        "unnormalised": table(milli),
        "negative": first_row(**{zero: -0.001, big: first[big] + 0.001}),
        "nan_prediction": first_row(**{big: np.nan}),
        "nan_beside_one": table(truth.astype(float)).replace(0.0, np.nan),
        "text": first_row(**{zero: "x"}),
        "extra_column": noisy.assign(note=1),
    }
