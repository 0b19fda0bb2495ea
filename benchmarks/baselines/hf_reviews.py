"""Baseline: examples/bert_classify with Hugging Face's Trainer, CPU, one thread.
usage: hf_reviews.py SEED      Prints the best epoch's accuracy on the held-out fifth."""
import json, sys, tempfile
import torch
from torch.utils.data import Dataset
from transformers import (AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding,
                          Trainer, TrainingArguments)

torch.set_num_threads(1)
tokenizer = AutoTokenizer.from_pretrained("data/minilm")
LABELS = ["negative", "positive"]


class Reviews(Dataset):
    def __init__(self, split):
        with open(f"data/reviews/{split}.jsonl") as file:
            rows = [json.loads(line) for line in file]
        self.rows = [{**tokenizer(row["text"], truncation=True, max_length=128),
                      "labels": LABELS.index(row["label"])} for row in rows]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, seed=int(sys.argv[1]), use_cpu=True, per_device_train_batch_size=32,
        num_train_epochs=2, learning_rate=5e-5, weight_decay=0.01, warmup_steps=53,
        eval_strategy="epoch", save_strategy="no", report_to=[], disable_tqdm=True)
    trainer = Trainer(
        AutoModelForSequenceClassification.from_pretrained("data/minilm", num_labels=2), arguments,
        train_dataset=Reviews("train"), eval_dataset=Reviews("valid"),
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(1) == p.label_ids).mean())})
    trainer.train()
    best = max(row["eval_accuracy"] for row in trainer.state.log_history if "eval_accuracy" in row)
    print(f"accuracy={best:.4f}")
