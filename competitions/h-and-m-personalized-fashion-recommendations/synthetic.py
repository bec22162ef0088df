from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    articles = sorted({int(id) for id in rng.integers(108_775_015, 953_763_002, 45)})
    customers = sorted({rng.bytes(10).hex() for _ in range(60)})
    ten_digits = [f"{article:010d}" for article in articles]
    _transactions(articles, customers, seed, rng).to_csv(raw / "transactions_train.csv", index=False)
    article_table = pd.DataFrame(
        {
            "article_id": ten_digits,
            "product_code": [article[:7] for article in ten_digits],
            "prod_name": rng.choice(["Strap top", "Jeans, slim", 'Tee "Basic"', "Mössa"], len(articles)),
            "product_type_no": rng.integers(-1, 300, len(articles)),
            "detail_desc": rng.choice(["Jersey top with narrow shoulder straps.", None], len(articles)),
        }
    )
    article_table.to_csv(raw / "articles.csv", index=False)
    n = len(customers)
    age = rng.integers(16, 90, n).astype(float)
    age[::9] = np.nan
    customer_table = pd.DataFrame(
        {
            "customer_id": customers,
            "FN": rng.choice([1.0, np.nan], n),
            "Active": rng.choice([1.0, np.nan], n),
            "club_member_status": rng.choice(["ACTIVE", "PRE-CREATE", None], n),
            "fashion_news_frequency": rng.choice(["NONE", "Regularly"], n),
            "age": age,
            "postal_code": [rng.bytes(6).hex() for _ in customers],
        }
    )
    customer_table.to_csv(raw / "customers.csv", index=False)
    sample = pd.DataFrame({"customer_id": customers, "prediction": " ".join(ten_digits[:12])})
    sample.to_csv(raw / "sample_submission.csv", index=False)
    for article in ten_digits[:12]:
        folder = raw / "images" / article[:3]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{article}.jpg").write_bytes(b"\xff\xd8\xff" + rng.bytes(8))


def _transactions(articles: list[int], customers: list[str], seed: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return sales of 26 days; the last five customers buy only in the last eight days."""
    one = np.timedelta64(1, "D")
    last = np.datetime64("2020-09-22") - 7 * (seed % 5) * one
    weight = 1 / np.arange(1, len(articles) + 1)
    weight /= weight.sum()
    rows = []
    for day in np.arange(last - 25 * one, last + one):
        if day == last - 3 * one:  # a day without sales
            continue
        known = len(customers) - (0 if day > last - 8 * one else 5)
        for customer in np.sort(rng.choice(known, int(rng.integers(4, 9)), replace=False)):
            for article in rng.choice(articles, int(rng.choice([1, 2, 4])), p=weight):
                for _ in range(2 if rng.random() < 0.1 else 1):  # the same article twice: two rows
                    price = round(float(rng.integers(100, 9000)) / 59 / 1000, 18)
                    rows.append((day, customers[customer], f"{article:010d}", price, int(rng.integers(1, 3))))
    rows += [(last, customers[0], f"{article:010d}", 0.05083050847457627, 2) for article in articles[:18]]
    return pd.DataFrame(rows, columns=["t_dat", "customer_id", "article_id", "price", "sales_channel_id"])


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    everyone = pd.read_csv(public / "sample_submission.csv")[["customer_id"]]
    customers = everyone["customer_id"]
    answers = pd.read_csv(private / "answers.csv", dtype=str).set_index("customer_id")["prediction"]
    bought = {customer: articles.split() for customer, articles in answers.items()}
    stock = sorted({article for articles in bought.values() for article in articles})

    def guess(customer: str, k: int = 7) -> str:
        """Return ``k`` articles, sometimes with duplicates."""
        true = bought.get(customer, [])
        picks = [rng.choice(true) if true and rng.random() < 0.35 else rng.choice(stock) for _ in range(k)]
        return " ".join(picks)

    noisy = everyone.assign(prediction=[guess(customer) for customer in customers])
    twenty = everyone.assign(prediction=[guess(customer, 20) for customer in customers])
    single = everyone.assign(prediction=[bought.get(customer, stock)[0] for customer in customers])
    lists = [bought.get(customer, ["1"]) for customer in customers]
    scored = customers.isin(answers.index)
    prediction = noisy["prediction"]
    even = np.arange(len(noisy)) % 2 == 0
    all_but_one = np.arange(len(single)) != np.flatnonzero(scored)[2]
    strangers = pd.DataFrame({"customer_id": ["zz", "00"], "prediction": "1 2 3"})
    return {
        "noisy": noisy,
        "noisy_shuffled": noisy.sample(frac=1, random_state=6),
        "columns_swapped": noisy[["prediction", "customer_id"]],
        "only_scored_customers": noisy[scored],
        "with_strangers": pd.concat([noisy, strangers]),
        "twenty_each": twenty,
        "best_twelve": everyone.assign(prediction=[" ".join([*dict.fromkeys(true)][:12]) for true in lists]),
        "right_but_reversed": everyone.assign(prediction=[" ".join(["5", "6", *reversed(true)]) for true in lists]),
        "ten_digits": noisy.assign(prediction=[" ".join(f"{int(id):010d}" for id in t.split()) for t in prediction]),
        "one_each": single,
        "one_each_ten_digits": single.assign(prediction=single["prediction"].str.zfill(10)),
        "one_each_or_none": single.assign(prediction=single["prediction"].where(all_but_one)),
        "some_empty": noisy.assign(prediction=prediction.where(even)),
        "all_empty": noisy.assign(prediction=""),
        "double_spaces": noisy.assign(prediction=prediction.str.replace(" ", "  ")),
        "outer_spaces": noisy.assign(prediction=" " + prediction + " "),
        "commas": noisy.assign(prediction=prediction.str.replace(" ", ",")),
        "same_row_twice": pd.concat([noisy, noisy[scored].iloc[[3]]]),
        "text": noisy.assign(prediction="nothing"),
        "missing_scored_customer": noisy.drop(index=noisy.index[scored][1]),
        "missing_column": noisy[["customer_id"]],
        "extra_column": noisy.assign(rank=1),
        "renamed_column": noisy.rename(columns={"prediction": "articles"}),
        "unknown_ids": noisy.assign(customer_id="x" + customers),
        "header_only": noisy.head(0),
        "empty.csv": "",
    }
