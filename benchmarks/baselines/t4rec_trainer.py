#!/usr/bin/env python3
"""Baseline: Transformers4Rec's own Trainer on a folder of sessions; prints "SAMPLES_PER_SECOND PEAK_MIB".

The rate is that of the epochs after the first, its loader included, evaluation left out. An installation
that works (Python 3.11, CPU):
  pip install torch==2.1.2 numpy==1.24.4 transformers==4.30.2 accelerate==0.21.0 'setuptools<70' \
    'transformers4rec[pytorch]==23.12.0' merlin-core==23.8.0 merlin-dataloader==23.8.0
  pip uninstall -y dask-cuda rapids-dask-dependency
  pip install dask==2023.5.1 distributed==2023.5.1 pyarrow==12.0.1 protobuf==3.20.3 'click<8.2' \
    tensorflow-metadata==1.14.0 numba==0.58.1 numpy==1.24.4 torchmetrics==1.2.0 npy-append-array==0.9.16
"""
import argparse
import os
import resource
import time

parser = argparse.ArgumentParser()
parser.add_argument("folder", help="train.parquet and schema.json, as convoy data sessions writes them")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--threads", type=int, default=1)
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import pyarrow.parquet as parquet  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import transformers4rec.torch as t4rec  # noqa: E402
from merlin_standard_lib import Schema  # noqa: E402
from transformers4rec.config.trainer import T4RecTrainingArguments  # noqa: E402
from transformers4rec.config.transformer import GPT2Config  # noqa: E402

torch.set_num_threads(arguments.threads)
transformers.set_seed(42)
schema = Schema().from_json(f"{arguments.folder}/schema.json").select_by_name(["item_id-list"])
inputs = t4rec.TabularSequenceFeatures.from_schema(
    schema, max_sequence_length=20, aggregation="concat", masking="clm")
body = GPT2Config.build(d_model=64, n_head=4, n_layer=2, total_seq_length=20)
model = body.to_torch_model(inputs, t4rec.NextItemPredictionTask(weight_tying=True))


class Epochs(transformers.TrainerCallback):
    seconds = []

    def on_epoch_begin(self, *_, **__):
        self.began = time.perf_counter()

    def on_epoch_end(self, *_, **__):
        self.seconds.append(time.perf_counter() - self.began)


trainer = t4rec.Trainer(
    model=model, schema=schema, train_dataset_or_path=f"{arguments.folder}/train.parquet",
    callbacks=[Epochs()],
    args=T4RecTrainingArguments(
        output_dir="/tmp/transformers4rec", no_cuda=True, report_to=[], save_strategy="no",
        num_train_epochs=arguments.epochs, learning_rate=1e-3, per_device_train_batch_size=128,
        max_sequence_length=20, data_loader_engine="merlin", disable_tqdm=True))
trainer.train()
rows = parquet.read_metadata(f"{arguments.folder}/train.parquet").num_rows
rate = rows * (arguments.epochs - 1) / sum(Epochs.seconds[1:])
print(f"{rate:.0f} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")
