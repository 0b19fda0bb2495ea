#!/usr/bin/env python3
"""Baseline: Transformers4Rec's own Trainer on a folder of sessions; prints "SAMPLES_PER_SECOND PEAK_MIB", with
--evaluate also NDCG@10 of the last items of valid.parquet.

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
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("folder", help="train.parquet and schema.json, as convoy data sessions writes them")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--body", default="gpt2", choices=["gpt2", "albert", "xlnet"])
parser.add_argument("--masking", default="clm", choices=["clm", "mlm", "plm"])
parser.add_argument("--features", action="store_true", help="all of the schema's, else items alone")
parser.add_argument("--learning_rate", type=float, default=1e-3)
for name, default in {"d_model": 64, "n_layer": 2, "n_head": 4, "item_embedding_dim": 64, "plm_max_span_length": 5}.items():
    parser.add_argument(f"--{name}", type=int, default=default)
for name, default in {"dropout": .3, "input_dropout": 0, "weight_decay": 0, "label_smoothing_factor": 0,
                      "mlm_probability": .15, "plm_probability": 1 / 6, "stochastic_swap_noise": 0}.items():
    parser.add_argument(f"--{name}", type=float, default=default)
parser.add_argument("--tabular_layer_norm", action="store_true")
parser.add_argument("--soft_embeddings", action="store_true", help="of continuous features: 5 vectors of 20")
parser.add_argument("--seed", type=int, default=42)
parser.add_argument("--evaluate", action="store_true")
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import pyarrow.parquet as parquet  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import transformers4rec.torch as t4rec  # noqa: E402
from merlin_standard_lib import Schema  # noqa: E402
from transformers4rec.config import transformer as configs  # noqa: E402
from transformers4rec.config.trainer import T4RecTrainingArguments  # noqa: E402
from transformers4rec.torch.tabular import transformations  # noqa: E402

torch.set_num_threads(arguments.threads)
transformers.set_seed(arguments.seed)
schema = Schema().from_json(f"{arguments.folder}/schema.json")
width = arguments.d_model
if arguments.features:
    schema = schema.select_by_name([c.name for c in schema if c.name.endswith("-list")])
    joined = dict(d_output=width)
    if arguments.soft_embeddings:
        joined.update(continuous_soft_embeddings=True, soft_embedding_cardinality_default=5,
                      soft_embedding_dim_default=20)
    else:
        joined.update(continuous_projection=width)
else:
    schema = schema.select_by_name(["item_id-list"])
    joined = {} if arguments.item_embedding_dim == width else dict(d_output=width)
if arguments.masking == "mlm":
    joined.update(mlm_probability=arguments.mlm_probability)
if arguments.masking == "plm":
    joined.update(plm_probability=arguments.plm_probability, max_span_length=arguments.plm_max_span_length)
changes = []  # of each feature's vectors
if arguments.input_dropout:
    changes.append(transformations.TabularDropout(arguments.input_dropout))
if arguments.tabular_layer_norm:
    changes.append("layer-norm")
if arguments.stochastic_swap_noise:
    joined.update(pre=transformations.StochasticSwapNoise(
        schema=schema, replacement_prob=arguments.stochastic_swap_noise))
inputs = t4rec.TabularSequenceFeatures.from_schema(
    schema, max_sequence_length=20, aggregation="concat", masking=arguments.masking,
    embedding_dims={"item_id-list": arguments.item_embedding_dim}, post=changes or None, **joined)
config = {"gpt2": configs.GPT2Config, "albert": configs.AlbertConfig, "xlnet": configs.XLNetConfig}[arguments.body]
body = config.build(d_model=width, n_head=arguments.n_head, n_layer=arguments.n_layer, total_seq_length=20,
                    dropout=arguments.dropout)
loss = torch.nn.CrossEntropyLoss(label_smoothing=arguments.label_smoothing_factor)
model = body.to_torch_model(inputs, t4rec.NextItemPredictionTask(weight_tying=True, loss=loss))


class Epochs(transformers.TrainerCallback):
    seconds = []

    def on_epoch_begin(self, *_, **__):
        self.began = time.perf_counter()

    def on_epoch_end(self, *_, **__):
        self.seconds.append(time.perf_counter() - self.began)


with tempfile.TemporaryDirectory() as output:
    trainer = t4rec.Trainer(
        model=model, schema=schema, train_dataset_or_path=f"{arguments.folder}/train.parquet",
        eval_dataset_or_path=f"{arguments.folder}/valid.parquet", callbacks=[Epochs()],
        compute_metrics=True,
        args=T4RecTrainingArguments(
            output_dir=output, no_cuda=True, report_to=[], save_strategy="no", seed=arguments.seed,
            num_train_epochs=arguments.epochs, learning_rate=arguments.learning_rate,
            weight_decay=arguments.weight_decay,
            per_device_train_batch_size=128, per_device_eval_batch_size=256, max_sequence_length=20,
            data_loader_engine="merlin", disable_tqdm=True))
    trainer.train()
    told = trainer.evaluate() if arguments.evaluate else {}
rows = parquet.read_metadata(f"{arguments.folder}/train.parquet").num_rows
rate = rows * (arguments.epochs - 1) / sum(Epochs.seconds[1:])
words = [f"{rate:.0f}", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}"]
print(*words, *(f"{value:.4f}" for name, value in told.items() if name.endswith("ndcg_at_10")))
