#!/usr/bin/env python3
"""Baseline: RecTools' SASRec or BERT4Rec with its own settings on a log of events (user,item,at): trains on all events of a user but the last
two, and writes the 10 items recommended before the last one. Prints "SECONDS PEAK_MIB" of the training.

Needs rectools==0.19.0, pytorch-lightning==2.6.6, torch and numpy<2.
"""
import argparse
import os
import resource
import time

parser = argparse.ArgumentParser()
parser.add_argument("events", help="CSV of user,item,at, sorted by user and time")
parser.add_argument("output", help="CSV of user,item,rank")
parser.add_argument("--body", default="sasrec", choices=["sasrec", "bert"])
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--seed", type=int, default=42)
parser.add_argument("--seen", action="store_true", help="recommend what a user had before, too")
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import pandas  # noqa: E402
import pytorch_lightning as lightning  # noqa: E402
import torch  # noqa: E402
from rectools import Columns  # noqa: E402
from rectools.dataset import Dataset  # noqa: E402
from rectools.models import BERT4RecModel, SASRecModel  # noqa: E402

torch.set_num_threads(1)
lightning.seed_everything(arguments.seed)
events = pandas.read_csv(arguments.events, dtype={"user": str, "item": str})
events.columns = [Columns.User, Columns.Item, Columns.Datetime]
events[Columns.Datetime] = pandas.Timestamp("2020-01-01") + pandas.to_timedelta(events[Columns.Datetime], unit="s")
events[Columns.Weight] = 1.0
from_end = events.groupby(Columns.User).cumcount(ascending=False)


def trainer():
    return lightning.Trainer(
        max_epochs=arguments.epochs, min_epochs=arguments.epochs, enable_progress_bar=False, enable_model_summary=False,
        logger=False, enable_checkpointing=False, devices=1, accelerator="cpu")


settings = dict(n_factors=arguments.width, epochs=arguments.epochs, get_trainer_func=trainer, recommend_torch_device="cpu")
model = (BERT4RecModel if arguments.body == "bert" else SASRecModel)(**settings)
train = Dataset.construct(events[from_end >= 2])
began = time.perf_counter()
model.fit(train)
print(f"{time.perf_counter() - began:.1f} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")
known = events[from_end >= 1]
users = known[Columns.User].unique()
found = model.recommend(users, Dataset.construct(known), k=10, filter_viewed=not arguments.seen, on_unsupported_targets="warn")
found = found.rename(columns={Columns.User: "user", Columns.Item: "item", Columns.Rank: "rank"})
found[["user", "item", "rank"]].to_csv(arguments.output, index=False)
