from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = sorted(rng.bytes(6).hex() for _ in range(120 + 7 * seed))
    labels = pd.DataFrame({"image_id": ids, "InChI": [_inchi(rng) for _ in ids]})
    labels.to_csv(raw / "train_labels.csv", index=False)
    old = sorted(rng.bytes(6).hex() for _ in range(3))
    for folder, group in (("train", ids), ("test", old)):
        for id in group:
            path = raw / folder / id[0] / id[1] / id[2] / f"{id}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"\x89PNG" + rng.bytes(2))
    pd.DataFrame({"image_id": old, "InChI": "InChI=1S/H2O/h1H2"}).to_csv(raw / "sample_submission.csv", index=False)
    extra = "".join(f'"{_inchi(rng)}"\n' for _ in range(10))
    (raw / "extra_approved_InChIs.csv").write_text("InChI\n" + extra)


def _inchi(rng: np.random.Generator) -> str:
    carbon, hydrogen = rng.integers(3, 24), rng.integers(4, 30)
    nitrogen, oxygen = rng.integers(0, 5), rng.integers(0, 5)
    formula = f"C{carbon}H{hydrogen}" + (f"N{nitrogen}" if nitrogen else "") + (f"O{oxygen}" if oxygen else "")
    atoms = rng.permutation(np.arange(1, carbon + 1))
    chain = "".join(str(atom) + str(rng.choice(["-", "-", "(", ")", ","])) for atom in atoms[:-1]) + str(atoms[-1])
    inchi = f"InChI=1S/{formula}/c{chain}/h{','.join(map(str, sorted(atoms[:3])))}H,1-2H3"
    return inchi + (f"/t{atoms[0]}-,{atoms[1]}+/m{rng.integers(0, 2)}/s1" if rng.random() < 0.4 else "")


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    truth = answers["InChI"]
    good = answers.assign(InChI=[_misread(text, rng) for text in truth])

    return {
        "column_order_and_extra": good.assign(extra=1)[["extra", "InChI", "image_id"]],
        "formula_only": answers.assign(InChI=["/".join(text.split("/")[:2]) for text in truth]),
        "prefix_only": answers.assign(InChI="InChI=1S/"),
        "lower_case": answers.assign(InChI=truth.str.lower()),
        "surrounding_spaces": answers.assign(InChI=" " + truth + "  "),
        **first_value(good, "InChI", unicode="InChI=1S/ꙮé𝛼" + truth[0][9:], newline_and_quotes='InChI="1S"\n/C'),
        **first_value(good, "InChI", too_long="C" * 3000, one_empty=None),
        "whole_numbers_and_gap": good.assign(InChI=[None, *range(len(good) - 1)]),
        "all_empty": good.assign(InChI=None),
        "numbers": good.assign(InChI=12.5),
        "missing_inchi": good[["image_id"]],
        "numeric_ids": good.assign(image_id=range(len(good))),
        **standard(good, "image_id", "ffffffffffff", "InChI", "missing_id renamed_column"),
    }


def _misread(text: str, rng: np.random.Generator) -> str:
    letters = list(text)
    for _ in range(rng.integers(0, 9)):
        place = int(rng.integers(9, len(letters)))
        match rng.integers(3):
            case 0:
                letters[place] = str(rng.choice(list("0123456789-(,/")))
            case 1:
                del letters[place]
            case _:
                letters.insert(place, str(rng.choice(list("0123456789CHN"))))
    return "".join(letters)
