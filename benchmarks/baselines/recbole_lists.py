#!/usr/bin/env python3
"""Baseline: RecBole's SASRec or GRU4Rec with its own settings on a log of events (user,item,at): trains on all events of a user but the last
two, and writes the 10 items recommended before the last one. Prints "SECONDS PEAK_MIB" of the training.

Needs recbole==1.2.1 with scipy<1.12, pandas<3 and numpy<2 (it calls what later ones have not), torch, tensorboard, thop, tabulate, plotly,
texttable and colorlog. Its `quick_start` wants ray, which is not needed here.
"""
import argparse
import os
import resource
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("events", help="CSV of user,item,at, sorted by user and time")
parser.add_argument("output", help="CSV of user,item,rank")
parser.add_argument("--body", default="SASRec", choices=["SASRec", "GRU4Rec"])
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--seed", type=int, default=42)
parser.add_argument("--seen", action="store_true", help="recommend what a user had before, too")
arguments = parser.parse_args()
arguments.events, arguments.output = os.path.abspath(arguments.events), os.path.abspath(arguments.output)
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch  # noqa: E402
from recbole.config import Config  # noqa: E402
from recbole.data import create_dataset, data_preparation  # noqa: E402
from recbole.utils import get_model, get_trainer, init_seed  # noqa: E402

torch.set_num_threads(1)
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)  # where it puts logs of its own
    os.mkdir("log")
    with open(arguments.events) as events, open("log/log.inter", "w") as atomic:
        next(events)
        atomic.write("user_id:token\titem_id:token\ttimestamp:float\n")
        atomic.writelines(line.replace(",", "\t") for line in events)
    config = Config(model=arguments.body, dataset="log", config_dict={
        "data_path": folder, "checkpoint_dir": folder, "epochs": arguments.epochs, "seed": arguments.seed, "use_gpu": False,
        "show_progress": False, "load_col": {"inter": ["user_id", "item_id", "timestamp"]}, "train_neg_sample_args": None,
        "eval_args": {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": "full"}})
    init_seed(config["seed"], config["reproducibility"])
    data = create_dataset(config)
    had = {}
    for user, item in zip(data.inter_feat["user_id"].tolist(), data.inter_feat["item_id"].tolist()):
        had.setdefault(user, []).append(item)  # in the order of the log, the target last
    train, _, test = data_preparation(config, data)
    model = get_model(config["model"])(config, train.dataset).to(config["device"])
    trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
    began = time.perf_counter()
    trainer.fit(train, None, saved=False, show_progress=False)
    print(f"{time.perf_counter() - began:.1f} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")
    model.eval()
    users, items = data.field2id_token["user_id"], data.field2id_token["item_id"]
    with open(arguments.output, "w") as lists, torch.no_grad():
        lists.write("user,item,rank\n")
        for batch in test:
            rows = batch[0]
            scores = model.full_sort_predict(rows).view(len(rows), -1)
            scores[:, 0] = -torch.inf  # padding
            for user, row in zip(rows["user_id"].tolist(), scores):
                if not arguments.seen:
                    row[had[user][:-1]] = -torch.inf
                for rank, item in enumerate(row.topk(10).indices.tolist(), 1):
                    lists.write(f"{users[user]},{items[item]},{rank}\n")
