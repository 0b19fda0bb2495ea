#!/usr/bin/env python3
"""Oracle: RecTools' EASE and RecBole's ItemKNN on a folder of sessions; prints NDCG@10 of unseen items, as
`convoy eval RUN --exclude_seen true --baselines itemknn,ease --json` has them.

  linear_recommenders.py data/ml-100k/sessions

Needs rectools==0.19.0, recbole==1.2.1 (of which one file is read: it wants torch), scipy and pyarrow<20 (for numpy 1.26).
"""
import importlib.util
import math
import pathlib
import sys
import types

import numpy
import pandas
import pyarrow.parquet as parquet
import scipy.sparse
from rectools import Columns
from rectools.dataset import Dataset
from rectools.models import EASEModel

folder = sys.argv[1]
train, valid, seen = (parquet.read_table(f"{folder}/{name}.parquet").to_pydict() for name in ("train", "valid", "seen"))
histories = dict(zip(seen["user_id"], seen["item_id-list"]))
largest = max(max(items) for items in histories.values())
pairs = sorted({(user, item) for user, items in zip(train["user_id"], train["item_id-list"]) for item in items})
candidates = numpy.array(sorted({item for _, item in pairs}))


def ease_weights(regularization):
    table = pandas.DataFrame(pairs, columns=[Columns.User, Columns.Item])
    table[Columns.Weight], table[Columns.Datetime] = 1.0, pandas.Timestamp("2020-01-01")
    dataset = Dataset.construct(table)
    model = EASEModel(regularization=regularization)
    model.fit(dataset)
    ids = dataset.item_id_map.external_ids
    out = numpy.zeros((largest + 1, largest + 1))
    out[numpy.ix_(ids, ids)] = model.weight
    return out


def item_knn_weights(neighbours):
    for name in ("torch", "recbole.model.abstract_recommender", "recbole.utils"):
        stand_in = types.ModuleType(name)
        stand_in.GeneralRecommender = stand_in.InputType = stand_in.ModelType = type("Any", (), {"POINTWISE": 0, "TRADITIONAL": 0})
        sys.modules[name] = stand_in
    root = pathlib.Path(importlib.util.find_spec("recbole").origin).parent
    spec = importlib.util.spec_from_file_location("itemknn", root / "model/general_recommender/itemknn.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    users, items = zip(*pairs)
    matrix = scipy.sparse.csr_matrix((numpy.ones(len(pairs), numpy.float32), (users, items)), (max(users) + 1, largest + 1))
    return module.ComputeSimilarity(matrix, topk=neighbours, shrink=0.0).compute_similarity()[1].toarray()


def ndcg(weights):
    total = 0.0
    for user, items, count in zip(valid["user_id"], valid["item_id-list"], valid["num_seen"]):
        had, target = sorted(set(histories[user][:count - 1])), items[-1]
        if target in had or target not in candidates:
            continue
        scores = weights[had].sum(0).astype(numpy.float32)
        others = numpy.setdiff1d(candidates, had)
        rank = 1 + ((scores[others] > scores[target]) | ((scores[others] == scores[target]) & (others < target))).sum()
        total += 1 / math.log2(1 + rank) if rank <= 10 else 0
    return total / len(valid["user_id"])


print("ease", ndcg(ease_weights(250.0)))
print("itemknn", ndcg(item_knn_weights(100)))
