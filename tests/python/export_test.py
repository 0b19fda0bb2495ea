"""What a run logged, told to others: as it is read, as it grows, and through the trackers themselves where they are installed."""

import fcntl
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from convoy import export

LINES = [
    {"step": 1, "loss": 3.0, "learning_rate": 0.1, "grad_norm": None},
    {"message": "a warning"},
    {"step": 1, "eval_loss": 2.5},
    {"step": 2, "loss": 2.0},
    {"train_loss": 2.5, "train_runtime": 1.0},
]


class Export(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_folder = Path(folder.name) / "first"
        self.run_folder.mkdir()
        (self.run_folder / "run.toml").write_text('[train]\nlearning_rate = 0.1\n[model]\nfamily = "gpt2"\n')

    def write(self):
        (self.run_folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))

    def export(self, *arguments, **environment):
        return subprocess.run([sys.executable, "-m", "convoy.export", *arguments], env={**os.environ, **environment},
                              cwd=self.run_folder.parent, capture_output=True, text=True)

    def test_names_are_hugging_faces(self):
        told = [export.metrics_of(line) for line in LINES]
        self.assertEqual(told[0], {"train/loss": 3.0, "train/learning_rate": 0.1})
        self.assertEqual(told[2], {"eval/loss": 2.5})
        self.assertEqual(told[4], {"run/train_loss": 2.5, "run/train_runtime": 1.0})
        self.assertEqual(export.options_of(self.run_folder), {"train.learning_rate": 0.1, "model.family": "gpt2"})

    def test_a_lock_counts_where_number_and_device_are_those_of_the_run(self):
        lock = self.run_folder / ".lock"
        lock.touch()
        self.assertFalse(export._is_running(self.run_folder))
        with lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            self.assertTrue(export._is_running(self.run_folder))
            with mock.patch.object(export, "_device", return_value="ff:ff"):  # of another disk
                self.assertFalse(export._is_running(self.run_folder))

    def test_follows_a_log_that_grows_until_its_run_ends(self):
        log = self.run_folder / "log.jsonl"
        log.write_text("nonsense\n")
        held = (self.run_folder / ".lock").open("w")
        fcntl.flock(held, fcntl.LOCK_EX)  # as a run holds its folder

        def grow():
            with log.open("a") as file:
                for line in LINES:
                    text = json.dumps(line) + "\n"
                    for part in text[:7], text[7:]:  # half a line is no line
                        file.write(part)
                        file.flush()
                        time.sleep(0.02)
            held.close()

        writer = threading.Thread(target=grow)
        writer.start()
        self.assertEqual(list(export.lines(self.run_folder, follow=True)), LINES)
        writer.join()

    def test_a_folder_without_a_log_is_told(self):
        self.assertIn("is no output folder of a run", self.export(str(self.run_folder), "--to", "mlflow").stderr)

    @unittest.skipIf(importlib.util.find_spec("mlflow"), "mlflow is here")
    def test_a_tracker_that_is_not_installed_is_told(self):
        self.write()
        self.assertIn("try pip install mlflow", self.export(str(self.run_folder), "--to", "mlflow").stderr)

    @unittest.skipUnless(importlib.util.find_spec("mlflow"), "there is no mlflow")
    def test_mlflow_reads_what_it_was_told(self):
        import mlflow

        self.write()
        uri = f"sqlite:///{self.run_folder.parent}/runs.db"
        done = self.export(str(self.run_folder), "--to", "mlflow", MLFLOW_TRACKING_URI=uri)
        self.assertEqual(done.returncode, 0, done.stderr)
        client = mlflow.MlflowClient(uri)
        (run,) = client.search_runs(["0"])
        self.assertEqual(run.data.params["model.family"], "gpt2")
        self.assertEqual([(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "train/loss")], [(1, 3.0), (2, 2.0)])
        self.assertEqual(run.data.metrics["eval/loss"], 2.5)

    @unittest.skipUnless(importlib.util.find_spec("wandb"), "there is no wandb")
    def test_wandb_keeps_what_it_was_told(self):
        self.write()
        done = self.export(str(self.run_folder), "--to", "wandb", WANDB_MODE="offline")
        self.assertEqual(done.returncode, 0, done.stderr)
        (file,) = self.run_folder.parent.rglob("*.wandb")
        held = file.read_bytes()  # its records are protobufs one after the other
        for word in b"train/loss", b"eval/loss", b"gpt2":
            self.assertIn(word, held)


if __name__ == "__main__":
    unittest.main()
