"""The Python package against the program: what it returns, raises, and leaves behind."""

import ctypes
import importlib.metadata
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from pathlib import Path

import convoy
from convoy import _command, _program

SMALL = {"d_model": 8, "n_layer": 1, "n_head": 2, "per_device_train_batch_size": 8, "save_strategy": "no"}
RARELY = {"save_strategy": "steps", "save_steps": 1_000_000}


def wait_until(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def processes_with(text):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if text in (folder / "cmdline").read_bytes().decode(errors="replace") and is_alive(folder.name):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


class Recorder(convoy.Callback):
    def __init__(self):
        self.kinds = []
        self.steps = []

    def __getattribute__(self, name):
        if name.startswith("on_") and name != "on_step":
            self.kinds.append(name[3:])
        return super().__getattribute__(name)

    def on_step(self, event):
        self.kinds.append("step")
        self.steps.append(event)


class InFolder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="convoy-python-"))
        cls.data = cls.folder / "sessions"
        _command.run("data", "synthetic", "--output", str(cls.data), "--items", "30", "--rows", "60")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def train(self, name, **options):
        return convoy.train({**SMALL, "data": {"path": self.data}}, output_dir=self.folder / name, **options)


class Train(InFolder):
    def test_tells_what_it_does_and_returns_what_it_left(self):
        recorder, events = Recorder(), []
        result = self.train(
            "told", max_steps=4, logging_steps=2, eval_strategy="steps", eval_steps=4, callbacks=[recorder, events.append]
        )
        self.assertEqual(
            [kind for kind in recorder.kinds if kind != "message"],
            ["begin", "step", "step", "log", "step", "step", "log", "evaluate", "end"],
        )
        self.assertEqual([event["event"] for event in events if event["event"] != "message"],
                         [kind for kind in recorder.kinds if kind != "message"])
        self.assertEqual(result.output_dir, self.folder / "told")
        self.assertEqual([line["step"] for line in result.log if "grad_norm" in line], [2, 4])
        self.assertAlmostEqual(result.metrics["train_loss"], sum(step["loss"] for step in recorder.steps) / 4, places=5)
        self.assertGreater(result.metrics["eval_loss"], 0)

    def test_two_ranks_give_the_losses_of_one(self):
        losses = []
        for nproc in 1, 2:
            recorder = Recorder()
            self.train(f"ranks{nproc}", max_steps=4, nproc=nproc, gradient_accumulation_steps=2 // nproc, callbacks=[recorder])
            losses.append([step["loss"] for step in recorder.steps])
        self.assertEqual(*losses)

    def test_a_file_is_a_configuration(self):
        file = self.folder / "run.toml"
        file.write_text(f'[data]\npath = "{self.data}"\n[train]\nmax_steps = 2\n')
        self.assertEqual(convoy.train(file, **SMALL, output_dir=self.folder / "file").log[-1]["train_steps_per_second"] > 0, True)

    def test_a_slow_callback_delays_no_step(self):
        results = self.folder / "slow" / "all_results.json"
        done = []

        def wait_for_the_end(event):
            if event["event"] == "step" and not done:
                done.append(wait_until(results.exists))

        self.train("slow", max_steps=30, callbacks=[wait_for_the_end])
        self.assertEqual(done, [True])

    def test_an_error_of_a_callback_saves_and_stops(self):
        def stop(event):
            if event["event"] == "step" and event["step"] >= 3:
                raise ZeroDivisionError("from a callback")

        with self.assertRaisesRegex(ZeroDivisionError, "from a callback"):
            self.train("raises", max_steps=1_000_000, callbacks=[stop], **RARELY)
        self.assertTrue(list((self.folder / "raises").glob("checkpoint-*")))

    def test_failures_are_exceptions_of_their_kind(self):
        with self.assertRaisesRegex(convoy.UsageError, "learning_rate = -1"):
            self.train("wrong", learning_rate=-1)
        with self.assertRaisesRegex(convoy.UsageError, "learning_rat"):
            self.train("unknown", learning_rat=1)
        with self.assertRaisesRegex(convoy.FileError, "missing"):
            convoy.train({"data.path": self.folder / "missing"}, output_dir=self.folder / "no")
        with self.assertRaises(ValueError):
            self.train("value", learning_rate=-1)

    def fault(self, fault):
        os.environ["CONVOY_FAULT"] = fault
        try:
            self.train("fault", max_steps=9, nproc=2, overwrite_output_dir=True)
        finally:
            del os.environ["CONVOY_FAULT"]

    def test_an_exception_knows_the_rank_the_step_and_the_operation(self):
        with self.assertRaises(convoy.ConvoyError) as caught:
            self.fault("exception@1:forward:2")
        error = caught.exception
        self.assertEqual((error.rank, error.step, error.operation), (1, 2, "forward block 0, micro-batch 0"))
        self.assertRegex(str(error), "rank 1 of 2: .*injected exception in forward, in `forward block 0.*` of step 2")
        self.assertEqual(len(error.report["ranks"]), 2)

    def test_a_rank_that_is_killed_is_named(self):
        with self.assertRaises(convoy.RankDied) as caught:
            self.fault("sigkill@0:backward:3")
        self.assertEqual((caught.exception.rank, caught.exception.signal), (0, "SIGKILL"))

    def test_memory_that_runs_out_is_a_memory_error(self):
        with self.assertRaises(convoy.OutOfMemoryError) as caught:
            self.fault("oom@1:forward:2")
        self.assertEqual(caught.exception.rank, 1)
        self.assertIsInstance(caught.exception, MemoryError)

    def test_a_run_goes_on_behind_a_line_that_was_cut(self):
        saves = {"save_strategy": "steps", "save_steps": 2, "logging_steps": 1}
        folder = self.train("cut", max_steps=2, **saves).output_dir
        with (folder / "log.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps({"message": "one\u2028line\x85"}, ensure_ascii=False) + '\n{"step": 3, "lo')
        result = self.train("cut", max_steps=4, resume_from_checkpoint="latest", **saves)
        self.assertEqual([line["step"] for line in result.log if "grad_norm" in line], [1, 2, 3, 4])
        self.assertIn({"message": "one\u2028line\x85"}, result.log)

    def test_returns_metrics_without_a_folder(self):
        result = convoy.train({**SMALL, "data.path": self.data}, max_steps=2)
        self.assertEqual((result.output_dir, result.log), (None, []))
        self.assertGreater(result.metrics["train_loss"], 0)

    def test_many_open_files_are_no_trouble(self):
        script = (
            "import convoy, os, resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096));"
            "held = [os.open('/dev/null', 0) for _ in range(1500)];"
            f"print(convoy.train({{**{SMALL}, 'data.path': {str(self.data)!r}}}, max_steps=2).metrics['train_loss'] > 0)"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.stdout, "True\n", done.stderr)

    def test_callbacks_are_looked_at_before_anything_runs(self):
        for callbacks in ([3], [convoy.Callback], print):
            with self.assertRaises(TypeError):
                self.train("callbacks", callbacks=callbacks)
        self.assertFalse((self.folder / "callbacks").exists())

    SCRIPT = """
import convoy, sys
def tell(event):
    if event["event"] == "step":
        print("step", flush=True)
try:
    convoy.train({options}, nproc=2, max_steps=1_000_000, callbacks=[tell])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

    def script(self, name):
        options = {**SMALL, **RARELY, "data.path": str(self.data), "output_dir": str(self.folder / name)}
        process = subprocess.Popen(
            [sys.executable, "-c", self.SCRIPT.replace("{options}", repr(options))], stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for _ in range(3):  # until the first one is done there is nothing to save, and a signal ends a rank at once
            self.assertEqual(process.stdout.readline(), "step\n")
        return process

    def test_control_c_saves_and_raises(self):
        process = self.script("interrupted")
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
        self.assertTrue(rest.endswith("interrupted\n"), rest[-200:])
        self.assertTrue(list((self.folder / "interrupted").glob("checkpoint-*")))
        self.assertTrue(wait_until(lambda: not processes_with(str(self.folder / "interrupted")), 20))

    def test_nothing_runs_on_when_python_dies(self):
        process = self.script("orphan")
        self.assertGreaterEqual(len(processes_with(str(self.folder / "orphan"))), 3)
        process.kill()
        process.wait()
        self.assertTrue(wait_until(lambda: not processes_with(str(self.folder / "orphan")), 20))


class Models(InFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sessions = convoy.train({**SMALL, "data.path": cls.data}, max_steps=3, output_dir=cls.folder / "rec").output_dir
        words = cls.folder / "words"
        words.mkdir()
        (words / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(20))]))
        text = cls.folder / "text.txt"
        text.write_text("\n".join(" ".join(f"w{(line * 7 + i * 3) % 20}" for i in range(8)) for line in range(100)))
        tiny = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 32, "block_size": 16, "save_strategy": "no"}
        cls.text = convoy.train(
            {"family": "gpt2", "train_file": text, "tokenizer": words, **tiny}, max_steps=3, output_dir=cls.folder / "lm"
        ).output_dir

    def test_recommends_as_often_as_it_is_asked(self):
        with convoy.Model(self.sessions, threads=1) as model:
            first = model.recommend(["item-3", "item-5"], top_k=4)
            self.assertEqual(len(first["items"]), 4)
            self.assertEqual(first, model.recommend(["item-3", "item-5"], top_k=4))
            only = model.recommend(["item-3"], candidates=["item-7", "item-9"], exclude_seen=True)
            self.assertEqual({item["item_id"] for item in only["items"]}, {"item-7", "item-9"})
            self.assertEqual(model.recommend(["nobody"])["unknown"], ["nobody"])
            best = first["items"][0]["item_id"]
            without = model.recommend(["item-3", "item-5"], top_k=4, exclude=[best], vector=True)
            self.assertEqual(without["items"][:3], first["items"][1:])
            self.assertEqual(len(without["vector"]), 8)
            self.assertEqual(model.recommend(["nobody"], popular=False)["items"], [])
            with self.assertRaisesRegex(convoy.ConvoyError, "no seen.parquet beside"):
                model.recommend(user="anna")
            with self.assertRaisesRegex(TypeError, "items or a user"):
                model.recommend()
            with self.assertRaisesRegex(convoy.UsageError, "top_k"):
                model.recommend(["item-3"], top_k="many")
            pid = model._worker.pid
            self.assertEqual(len(model.recommend(["item-3"])["items"]), 10)
        self.assertFalse(is_alive(pid))

    def test_scores_that_are_no_numbers_are_told(self):
        wild = self.folder / "wild"
        shutil.copytree(self.sessions, wild)
        weights = wild / "model.safetensors"
        data = weights.read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        weights.write_bytes(data[:begin] + struct.pack("<f", 3e38) * ((len(data) - begin) // 4))
        with convoy.Model(wild, threads=1) as model:
            with self.assertRaisesRegex(convoy.NumericError, "not finite"):
                model.recommend(["item-3", "item-5"], top_k=4)

    def test_goes_on_from_text(self):
        with convoy.Model(self.text, threads=1) as model:
            text = model.generate("w1 w4", max_new_tokens=5)
            self.assertEqual(len(text.split()), 5)
            self.assertEqual(text, model.generate("w1 w4", max_new_tokens=5))
            drawn = {model.generate("w1 w4", max_new_tokens=5, temperature=2.0, seed=seed) for seed in range(8)}
            self.assertGreater(len(drawn), 1)
            with self.assertRaisesRegex(convoy.UsageError, "temperature"):
                model.generate("w1", temperature=0)
            with self.assertRaisesRegex(convoy.UsageError, '"max_new_tokens" = 0; expected 1 to'):
                model.generate("w1 w4", max_new_tokens=0)
            with self.assertRaisesRegex(convoy.UsageError, "expected prompt, max_new_tokens"):
                model.generate("w1", beams=4)
            with self.assertRaisesRegex(convoy.UsageError, "empty"):
                model.generate("")

    def test_sorts_texts(self):
        words, table = self.folder / "sorts", self.folder / "sorts.csv"
        words.mkdir()
        (words / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "w0", "w1"]))
        table.write_text("text,label\n" + "".join(f"w{i % 2} {'good' if i % 3 else 'bad'},{'yes' if i % 3 else 'no'}\n" for i in range(120)))
        tiny = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        folder = convoy.train(
            {"task": "classification", "data.train": table, "data.tokenizer": words, **tiny, "max_position_embeddings": 32},
            learning_rate=1e-2, max_steps=60, max_length=8, save_strategy="no", output_dir=self.folder / "sorter"
        ).output_dir
        with convoy.Model(folder, threads=1) as model:
            for text, label in ("w1 good", "yes"), ("w0 bad", "no"), ("w1 good", "yes"):
                answer = model.predict(text)
                self.assertEqual(answer["label"], label)
                self.assertEqual(answer["score"], max(answer["scores"].values()))
                self.assertAlmostEqual(sum(answer["scores"].values()), 1, places=6)
            with self.assertRaisesRegex(convoy.UsageError, "expected .*text"):
                model.predict("w1", "good")
            begin = time.monotonic()
            for _ in range(20):
                model.predict("w1 good")
            self.assertLess((time.monotonic() - begin) / 20, 0.1)

    def test_is_what_the_command_says(self):
        said = _command.run("generate", str(self.text), "--prompt", "w1 w4", "--max-new-tokens", "6", "--json")
        with convoy.Model(self.text) as model:
            self.assertEqual(json.loads(said)["text"], model.generate("w1 w4", max_new_tokens=6))

    def test_many_threads_ask_at_once(self):
        with convoy.Model(self.sessions) as model:
            wanted = [model.recommend([f"item-{i}"])["items"] for i in range(1, 9)]
            found = [None] * 8

            def ask(i):
                found[i] = model.recommend([f"item-{i + 1}"])["items"]

            threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(found, wanted)

    def test_the_thread_that_asked_first_may_end(self):
        with convoy.Model(self.sessions) as model:
            thread = threading.Thread(target=model.recommend, args=(["item-3"],))
            thread.start()
            thread.join()
            time.sleep(0.2)
            pid = model._worker.pid
            self.assertEqual(len(model.recommend(["item-3"])["items"]), 10)
            self.assertEqual(model._worker.pid, pid)

    def test_an_interrupted_question_spoils_no_answer(self):
        with convoy.Model(self.sessions) as model:
            model.recommend(["item-3"])
            signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
            model._worker.send_signal(signal.SIGSTOP)  # it does not answer in time
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with self.assertRaises(KeyboardInterrupt):
                model.recommend(["item-3"], candidates=["item-7"])
            only = model.recommend(["item-3"], candidates=["item-9"])
            self.assertEqual([item["item_id"] for item in only["items"]], ["item-9"])

    def test_a_child_that_was_forked_has_a_worker_of_its_own(self):
        with convoy.Model(self.sessions) as model:
            wanted = {i: model.recommend([f"item-{i}"])["items"] for i in range(1, 7)}
            child = os.fork()
            right = all(model.recommend([f"item-{i}"])["items"] == wanted[i] for i in wanted)
            if child == 0:
                model.close()
                os._exit(0 if right else 1)
            self.assertTrue(right)
            self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_fork_while_another_thread_asks_hangs_nobody(self):
        with convoy.Model(self.sessions) as model:
            wanted = model.recommend(["item-1"])["items"]
            done = threading.Event()

            def ask():
                while not done.is_set():
                    model.recommend(["item-2"])

            thread = threading.Thread(target=ask)
            thread.start()
            try:
                for _ in range(5):
                    time.sleep(0.01)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # of a fork beside threads, which this is about
                        child = os.fork()
                    if child == 0:
                        signal.alarm(30)  # ends one that hangs
                        right = model.recommend(["item-1"])["items"] == wanted
                        model.close()
                        os._exit(0 if right else 1)
                    self.assertEqual(os.waitpid(child, 0)[1], 0)
            finally:
                done.set()
                thread.join()
            self.assertEqual(model.recommend(["item-1"])["items"], wanted)

    def test_paths_may_be_bytes(self):
        self.assertEqual(_command.flags({"output_dir": b"x", "data": {"path": Path("y")}}), ["--output_dir=x", "--data.path=y"])
        self.assertEqual(_command.place(b"-x"), "./-x")

    def test_close_ends_a_worker_that_hangs(self):
        model = convoy.Model(self.sessions)
        model.recommend(["item-3"])
        worker = model._worker
        worker.send_signal(signal.SIGSTOP)
        model.close()
        self.assertFalse(is_alive(worker.pid))
        with self.assertRaisesRegex(ValueError, "was closed"):
            model.recommend(["item-3"])

    def test_questions_that_make_no_sense_are_told(self):
        with convoy.Model(self.sessions) as model:
            with self.assertRaises(TypeError):
                model.recommend("12")
            with self.assertRaisesRegex(convoy.UsageError, "candidates"):
                model.recommend(["item-3"], candidates=[])

    def test_a_worker_that_dies_is_told_and_the_next_question_starts_another(self):
        with convoy.Model(self.sessions) as model:
            model.recommend(["item-3"])
            model._worker.kill()
            model._worker.wait()
            with self.assertRaisesRegex(convoy.RankDied, "SIGKILL"):
                model.recommend(["item-3"])
            self.assertEqual(len(model.recommend(["item-3"])["items"]), 10)

    def test_a_folder_that_is_none_is_told(self):
        with convoy.Model(self.folder / "nothing") as model, self.assertRaisesRegex(convoy.UsageError, "nothing"):
            model.recommend(["item-3"])

    def test_estimates_and_plans(self):
        run = {"family": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "random_tokens": 4000, "block_size": 16}
        self.assertEqual({way["zero"] for way in convoy.estimate(ranks=2, **run)}, {0, 1, 2, 3})
        self.assertTrue(convoy.plan(self.text, ranks=2, on="h100-80"))


class Installation(unittest.TestCase):
    def setUp(self):
        self.addCleanup(setattr, _program, "TORCH", _program.TORCH)
        self.addCleanup(_program.environment.cache_clear)
        _program.environment.cache_clear()

    def test_another_torch_is_a_sentence_with_both_versions(self):
        _program.TORCH = "9.9"
        with self.assertRaisesRegex(convoy.InstallationError, r"built with torch 9\.9 and cannot work with 2\.\d+"):
            _program.program()

    def test_no_torch_is_a_sentence(self):
        with self.assertRaisesRegex(convoy.InstallationError, r"needs nothing 1\.0, and there is none here"):
            _program._folder_of("nothing", "1.0")

    def test_torch_without_its_cuda_runtime_is_a_sentence(self):
        requires, load = importlib.metadata.requires, ctypes.CDLL
        self.addCleanup(setattr, importlib.metadata, "requires", requires)
        self.addCleanup(setattr, ctypes, "CDLL", load)
        asked = ["numpy", 'cuda-toolkit[cublas,cudart,cupti]==13.2.2; platform_system == "Linux"']
        importlib.metadata.requires = lambda package: asked
        loaded = []

        def found_nowhere(name):
            loaded.append(name)
            raise OSError(name)

        ctypes.CDLL = found_nowhere
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder)
            with self.assertRaisesRegex(convoy.InstallationError, r"try pip install --no-deps "
                                        r"'nvidia-cuda-runtime==13\.2\.\*' 'nvidia-cuda-cupti==13\.2\.\*'$"):
                _program._check_cuda(site)
            self.assertEqual(loaded, ["libcudart.so.13", "libcupti.so.13"])
            ctypes.CDLL = lambda name: None  # of the system
            _program._check_cuda(site)
            ctypes.CDLL = found_nowhere
            for name in "cudart", "cupti":
                file = site / "nvidia" / "cu13" / "lib" / f"lib{name}.so.13"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()
                if name == "cudart":
                    with self.assertRaisesRegex(convoy.InstallationError, r"--no-deps 'nvidia-cuda-cupti==13\.2\.\*'$"):
                        _program._check_cuda(site)
            _program._check_cuda(site)
            asked[:] = ["numpy"]  # torch without CUDA
            shutil.rmtree(site / "nvidia")
            _program._check_cuda(site)

    def test_the_command_becomes_the_program(self):
        out = subprocess.run([sys.executable, "-m", "convoy", "--version"], capture_output=True, text=True, check=True)
        self.assertRegex(out.stdout, r"^convoy \d+\.\d+")
        prefix = subprocess.run([sys.executable, "-m", "convoy", "--cmake-prefix"], capture_output=True, text=True, check=True)
        self.assertEqual(Path(prefix.stdout.strip()), _program.FOLDER)


if __name__ == "__main__":
    unittest.main()
