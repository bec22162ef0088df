from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from pytest_mlebench.authoring.worlds.labels import by_size, random_names, with_missing
from pytest_mlebench.authoring.worlds.text import lexicon, zipf

DAYS, WEEK, REPEATED = 75, 7, 0.3
GROUPS, COLOURS = 16, 10
NAMED = {
    "product_type_no": "product_type_name",
    "product_group_no": "product_group_name",
    "graphical_appearance_no": "graphical_appearance_name",
    "colour_group_code": "colour_group_name",
    "perceived_colour_value_id": "perceived_colour_value_name",
    "perceived_colour_master_id": "perceived_colour_master_name",
    "department_no": "department_name",
    "index_code": "index_name",
    "index_group_no": "index_group_name",
    "section_no": "section_name",
    "garment_group_no": "garment_group_name",
}


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    people, stock = (by_size(size, *counts) for counts in ((260, 1600, 6000), (150, 320, 800)))
    # the world: each customer likes some groups of articles, and colours; articles go in and out of fashion
    group, colour = rng.integers(GROUPS, size=stock), rng.integers(COLOURS, size=stock)
    taste = rng.dirichlet(np.full(GROUPS, 0.12), people)[:, group]
    taste = taste * rng.dirichlet(np.full(COLOURS, 0.7), people)[:, colour] + 1e-5
    days, peak = np.arange(DAYS), rng.uniform(-20, DAYS + 20, stock)
    fashion = np.exp(-(((days[:, None] - peak) / 25) ** 2)) * rng.lognormal(0, 1, stock)
    shopping = rng.gamma(1.5, 0.06, people).clip(0, 0.5)

    sales, cart = [], [[] for _ in range(people)]
    for day in days:
        if day == DAYS - WEEK - 1:  # what is known before the test, which begins today or tomorrow
            known = [list(dict.fromkeys(reversed(bought)))[:4] for bought in cart]
        buyers = np.flatnonzero(rng.random(people) < shopping)
        chances = (taste[buyers] * fashion[day]).cumsum(axis=1)
        for customer, chance in zip(buyers, chances / chances[:, -1:], strict=False):
            fresh = np.searchsorted(chance, rng.random(rng.integers(1, 4)))
            for article in fresh:
                if cart[customer] and rng.random() < REPEATED:
                    last = list(dict.fromkeys(reversed(cart[customer])))[:4]
                    article = last[rng.integers(len(last))]
                cart[customer].append(int(article))
                sales.append((day, customer, int(article)))

    customers = sorted(random_names(rng, people, 64))
    articles = sorted(108_775_015 + rng.choice(845_000_000, stock, replace=False))
    _write(raw, rng, sales, customers, articles, group, colour)
    now = fashion[-WEEK:].mean(axis=0)
    predictions = {"simple": [], "ceiling": []}
    for customer in range(people):
        liking = taste[customer] * now
        score = (1 - REPEATED) * liking / liking.sum()
        score[known[customer]] += REPEATED / max(len(known[customer]), 1)
        liked = now * (liking > liking.mean())
        popular = [*known[customer], *liked.argsort()[::-1][:12]]
        for name, best in (("simple", list(dict.fromkeys(popular))[:12]), ("ceiling", score.argsort()[::-1][:12])):
            predictions[name].append(" ".join(str(articles[k]) for k in best))
    index = pd.Index(customers, name="customer_id")
    return {name: pd.DataFrame({"prediction": texts}, index) for name, texts in predictions.items()}


def _write(
    raw: Path,
    rng: np.random.Generator,
    sales: list[tuple[int, int, int]],
    customers: list[str],
    articles: list[int],
    group: np.ndarray,
    colour: np.ndarray,
) -> None:
    names, words = [f"{article:010d}" for article in articles], lexicon(rng, 200)
    day, who, what = np.array(sales).T
    dates = (np.datetime64("2020-09-22") - (DAYS - 1) + np.arange(DAYS)).astype(str)
    price = rng.uniform(0.005, 0.09, len(articles)).round(4)[what] * rng.choice([1, 1, 0.8], len(sales))
    table = pd.DataFrame(
        {"t_dat": dates[day], "customer_id": np.array(customers)[who], "article_id": np.array(names)[what]}
    )
    table["price"], table["sales_channel_id"] = price.round(6), rng.choice([1, 2], len(sales), p=[0.3, 0.7])
    table.to_csv(raw / "transactions_train.csv", index=False)

    shown = pd.DataFrame({"article_id": names, "product_code": [name[:7] for name in names]})
    shown["prod_name"] = [" ".join(zipf(rng, words, 2)).title() for _ in names]
    for k, (code, name) in enumerate(NAMED.items()):
        value = colour if "colour" in code else group // (1 + k % 3)
        shown[code], shown[name] = value + 10 * k, [words[(7 * k + v) % 200].title() for v in value]
    shown = shown.drop(columns="product_group_no")
    shown["detail_desc"] = [
        " ".join([*zipf(rng, words, 8), words[g], words[c + 50]]) for g, c in zip(group, colour, strict=False)
    ]
    with_missing(shown, ["detail_desc"], 0.01, rng).to_csv(raw / "articles.csv", index=False)
    n = len(customers)
    people = pd.DataFrame({"customer_id": customers, "FN": 1.0, "Active": 1.0})
    people["club_member_status"] = rng.choice(["ACTIVE", "PRE-CREATE"], n, p=[0.93, 0.07])
    people["fashion_news_frequency"] = rng.choice(["NONE", "Regularly"], n, p=[0.65, 0.35])
    people["age"] = (16 + rng.gamma(3, 8, n)).round().clip(16, 90)
    people["postal_code"] = random_names(rng, n, 64)
    people = with_missing(people, ["FN", "Active"], 0.65, rng)
    with_missing(people, ["age"], 0.02, rng).to_csv(raw / "customers.csv", index=False)
    sample = pd.DataFrame({"customer_id": customers, "prediction": " ".join(rng.permutation(names)[:12])})
    sample.to_csv(raw / "sample_submission.csv", index=False)

    shades = rng.integers(40, 220, (COLOURS, 3))
    for name, shade in zip(names, shades[colour], strict=False):  # small, because their size is not fixed
        path = raw / "images" / name[:3] / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.full((48, 32, 3), 235) + rng.normal(0, 6, (48, 32, 3))
        pixels[8:40, 6:26] = shade + rng.normal(0, 12, (32, 20, 3))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=85)
