#!/usr/bin/env python3
"""Baseline: RecTools' SASRec, LiGR (eSASRec) or BERT4Rec on a folder of sessions; prints "SAMPLES_PER_SECOND PEAK_MIB", with
--evaluate also NDCG@10 of the last items of valid.parquet among all items.

Each session is a user there. The rate is that of the epochs after the first, the loader included.
Needs rectools[torch]==0.19.0 and pyarrow<20 (for numpy 1.26).
"""
import argparse
import math
import os
import resource
import time

parser = argparse.ArgumentParser()
parser.add_argument("folder", help="train.parquet and valid.parquet, as convoy data sessions writes them")
parser.add_argument("--body", default="sasrec", choices=["sasrec", "ligr", "bert"])
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--dropout", type=float, default=0.3)
parser.add_argument("--learning_rate", type=float, default=1e-3)
parser.add_argument("--seed", type=int, default=42)
parser.add_argument("--evaluate", action="store_true")
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import pandas  # noqa: E402
import pyarrow.parquet as parquet  # noqa: E402
import pytorch_lightning as lightning  # noqa: E402
import torch  # noqa: E402
from rectools import Columns  # noqa: E402
from rectools.dataset import Dataset  # noqa: E402
from rectools.models import BERT4RecModel, SASRecModel  # noqa: E402
from rectools.models.nn.transformers.ligr import LiGRLayers  # noqa: E402
from rectools.models.nn.transformers.sasrec import SASRecTransformerLayers  # noqa: E402

torch.set_num_threads(arguments.threads)
lightning.seed_everything(arguments.seed)
LENGTH, TOP = 20, 10


def sessions(name):
    table = parquet.read_table(f"{arguments.folder}/{name}.parquet", columns=["item_id-list"])
    return [row[-LENGTH:] for row in table.column(0).to_pylist()]


def interactions(rows):
    users = [user for user, row in enumerate(rows) for _ in row]
    items = [item for row in rows for item in row]
    times = [at for row in rows for at in range(len(row))]
    return pandas.DataFrame({
        Columns.User: users, Columns.Item: items, Columns.Weight: 1.0,
        Columns.Datetime: pandas.Timestamp("2020-01-01") + pandas.to_timedelta(times, unit="s")})


class Epochs(lightning.Callback):
    seconds = []

    def on_train_epoch_start(self, *_):
        self.began = time.perf_counter()

    def on_train_epoch_end(self, *_):
        self.seconds.append(time.perf_counter() - self.began)


def trainer():
    return lightning.Trainer(
        max_epochs=arguments.epochs, min_epochs=arguments.epochs, enable_progress_bar=False, enable_model_summary=False,
        logger=False, enable_checkpointing=False, devices=1, accelerator="cpu", callbacks=[Epochs()])


train = sessions("train")
settings = dict(
    n_blocks=2, n_heads=4, n_factors=64, dropout_rate=arguments.dropout, session_max_len=LENGTH, loss="softmax",
    lr=arguments.learning_rate, batch_size=arguments.batch, epochs=arguments.epochs, use_key_padding_mask=True,
    get_trainer_func=trainer, recommend_torch_device="cpu")
if arguments.body == "bert":
    model = BERT4RecModel(**settings)
else:
    layers = {"sasrec": SASRecTransformerLayers, "ligr": LiGRLayers}[arguments.body]
    model = SASRecModel(transformer_layers_type=layers, **settings)
model.fit(Dataset.construct(interactions(train)))
rate = len(train) * (arguments.epochs - 1) / sum(Epochs.seconds[1:])
words = [f"{rate:.0f}", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}"]
if arguments.evaluate:
    valid = sessions("valid")
    seen = Dataset.construct(interactions([row[:-1] for row in valid]))
    users = [user for user, row in enumerate(valid) if len(row) > 1]
    found = model.recommend(users, seen, k=TOP, filter_viewed=False, on_unsupported_targets="warn")
    gain = sum(1 / math.log2(rank + 1) for user, item, rank in
               zip(found[Columns.User], found[Columns.Item], found[Columns.Rank]) if valid[user][-1] == item)
    words.append(f"{gain / len(valid):.4f}")
print(*words)
