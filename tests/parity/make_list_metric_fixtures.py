#!/usr/bin/env python3
"""Writes list_metrics.json: what RecTools' metrics of recommended lists, and RecBole's where it has them, say.

Needs rectools==0.19.0; with recbole==1.2.1, too, its numbers are checked against RecTools':

    python3 tests/parity/make_list_metric_fixtures.py tests/parity
"""
import json
import pathlib
import random
import sys

import numpy
import pandas
from rectools import Columns
from rectools.metrics import (AvgRecPopularity, CatalogCoverage, IntraListDiversity, MeanInvUserFreq,
                              PairwiseHammingDistanceCalculator, Serendipity)

KS = (1, 3, 10)
USERS, ITEMS, LISTS = 60, 40, 50


def draw(seed):
    """Training rows [user, items], categories by item id, and a list and a target for each of some users."""
    generator = random.Random(seed)
    weights = [1 / (i + 1) for i in range(ITEMS)]
    train = []
    for user in range(1, USERS + 1):
        items = generator.choices(range(1, ITEMS + 1), weights, k=generator.randrange(2, 13))
        train += [[user, items[i:i + 5]] for i in range(0, len(items), 5)]
    known = sorted({item for _, items in train for item in items})
    categories = {name: [0] + [generator.randrange(1, kinds + 1) for _ in range(ITEMS)]
                  for name, kinds in (("genre-list", 4), ("country-list", 2))}
    lists, targets = [], []
    for row in range(LISTS):
        lists.append(generator.sample(known, (10, 10, 3, 1)[row % 4]))
        targets.append(generator.choice(lists[-1] if row % 3 else known))
    return train, known, categories, lists, targets


def of_rectools(train, known, categories, lists, targets):
    before = pandas.DataFrame([(user, item) for user, items in train for item in items],
                              columns=[Columns.User, Columns.Item])
    after = pandas.DataFrame({Columns.User: range(len(targets)), Columns.Item: targets})
    reco = pandas.DataFrame([(row, item, rank + 1) for row, items in enumerate(lists) for rank, item in enumerate(items)],
                            columns=[Columns.User, Columns.Item, Columns.Rank])
    features = pandas.DataFrame({name: values[1:] for name, values in categories.items()}, index=range(1, ITEMS + 1))
    distances = PairwiseHammingDistanceCalculator(features)
    out = {}
    for k in KS:
        out[f"coverage_at_{k}"] = CatalogCoverage(k, normalize=True).calc(reco, known)
        for name, values in (
                ("novelty", MeanInvUserFreq(k).calc_per_user(reco, before)),
                ("average_popularity", AvgRecPopularity(k).calc_per_user(reco, before)),
                ("diversity", IntraListDiversity(k, distances).calc_per_user(reco)),
                ("serendipity", Serendipity(k).calc_per_user(reco, after, before, known))):
            out[f"{name}_at_{k}"] = float(values.mean())
            out[f"{name}_at_{k}_stderr"] = float(values.std(ddof=1) / numpy.sqrt(len(values)))
    return out


def check_recbole(train, known, categories, lists, targets):
    """RecBole's metrics want lists of one length."""
    try:
        from recbole.evaluator.metrics import AveragePopularity, ItemCoverage
    except ImportError:
        return print("recbole is not installed: its numbers are not checked")
    full = [items for items in lists if len(items) == KS[-1]]
    wanted = of_rectools(train, known, categories, full, targets[:len(full)])
    config = {"topk": list(KS), "metric_decimal_place": 12}
    matrix = numpy.array(full)
    counts = {}
    for _, items in train:
        for item in items:
            counts[item] = counts.get(item, 0) + 1
    popularity = AveragePopularity(config)
    means = popularity.topk_result("popularity", popularity.metric_info(popularity.get_pop(matrix, counts)))
    for k in KS:
        assert abs(means[f"popularity@{k}"] - wanted[f"average_popularity_at_{k}"]) < 1e-9, (k, means, wanted)
        shown = ItemCoverage(config).get_coverage(matrix[:, :k], len(known))
        assert abs(shown - wanted[f"coverage_at_{k}"]) < 1e-12, (k, shown, wanted)
    print("recbole agrees")


def main(folder):
    train, known, categories, lists, targets = draw(7)
    expected = of_rectools(train, known, categories, lists, targets)
    check_recbole(train, known, categories, lists, targets)
    fixture = {"train": train, "num_ids": ITEMS + 1, "known": known, "categories": categories, "lists": lists,
               "targets": targets, "ks": KS, "expected": expected}
    (pathlib.Path(folder) / "list_metrics.json").write_text(json.dumps(fixture, separators=(",", ":")) + "\n")


main(*(sys.argv[1:] or ["."]))
