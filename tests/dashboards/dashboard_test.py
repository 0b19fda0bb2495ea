#!/usr/bin/env python3
"""The queries of docs/grafana.json find a run's numbers in Prometheus, which reads them through node_exporter or from the run itself.

CONVOY is the program. Where Debian's prometheus and prometheus-node-exporter are not installed, the file alone is looked at.
"""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONVOY = os.environ.get("CONVOY", str(ROOT / "build/bin/convoy"))
PROGRAMS = ("prometheus", "prometheus-node-exporter")
# Numbers that only some machines or runs have.
NOT_EVERYWHERE = ("convoy_compute_utilization_ratio",)


def free_port():
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return asked.getsockname()[1]


def expressions():
    """(title, query with the run filled in) of the panels."""
    board = json.loads((ROOT / "docs/grafana.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$run", ".*")


class Metrics(unittest.TestCase):
    """A run's file."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="convoy_dashboard_"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.run_program([CONVOY, "data", "synthetic", "--output", "sessions", "--rows", "300", "--items", "50"])
        cls.run_program([CONVOY, "train", "--data.path", "sessions", "--d_model", "16", "--n_layer", "1", "--n_head", "2", "--max_steps",
                         "6", "--logging_steps", "2", "--save_steps", "3", "--output_dir", "run", "--metrics_file", "convoy.prom", "--quiet"])

    @classmethod
    def run_program(cls, command):
        done = subprocess.run(command, cwd=cls.folder, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)

    def test_has_what_the_panels_ask_for(self):
        written = set(re.findall(r"^(convoy_\w+)", (self.folder / "convoy.prom").read_text(), re.M))
        for title, expression in expressions():
            with self.subTest(panel=title):
                asked = set(re.findall(r"convoy_\w+", expression))
                self.assertTrue(asked)
                self.assertEqual(asked - written - set(NOT_EVERYWHERE), set())

    def test_goodput_is_that_of_the_results(self):
        told = float(re.search(r"^convoy_goodput_ratio\S* (\S+)", (self.folder / "convoy.prom").read_text(), re.M)[1])
        results = json.loads((self.folder / "run/train_results.json").read_text())
        for goodput in (told, results["train_goodput"]):
            self.assertGreater(goodput, 0)
            self.assertLess(goodput, 1)


class Running:
    """A training that answers at a port until it is stopped."""

    def __init__(self, folder):
        self.port = free_port()
        self.log = open(folder / "running.log", "w+")
        self.process = subprocess.Popen(
            [CONVOY, "train", "--data.path", "sessions", "--d_model", "16", "--n_layer", "1", "--n_head", "2", "--max_steps", "1000000",
             "--logging_steps", "50", "--save_strategy", "no", "--eval_strategy", "no", "--output_dir", "running", "--metrics_port",
             str(self.port), "--quiet"], cwd=folder, stdout=self.log, stderr=self.log)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def scrape(self, path="metrics"):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=10) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    def wait_for_a_line(self):
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            try:
                kind, text = self.scrape()
                if "convoy_loss" in text:
                    return kind, text
            except OSError:  # it has not begun to listen
                pass
            time.sleep(0.1)
        self.log.seek(0)
        raise AssertionError("it does not answer: " + self.log.read()[-1000:])


class Port(unittest.TestCase):
    """A run that answers a plain client of HTTP."""

    def test_tells_what_the_file_tells(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="convoy_port_"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        subprocess.run([CONVOY, "data", "synthetic", "--output", "sessions", "--rows", "300", "--items", "50"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        run = Running(folder)
        self.addCleanup(run.stop)
        kind, text = run.wait_for_a_line()
        self.assertEqual(kind, "text/plain; version=0.0.4; charset=utf-8")
        self.assertIn('\nconvoy_running{run="running"} 1\n', text)
        step = int(re.search(r'^convoy_step\{run="running"\} (\d+)$', text, re.M)[1])
        self.assertGreaterEqual(step, 50)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            run.scrape("secrets")
        self.assertEqual(refused.exception.code, 404)
        refused.exception.close()
        taken = subprocess.run([CONVOY, "train", "--data.path", "sessions", "--metrics_port", str(run.port)], cwd=folder,
                               capture_output=True, text=True)
        self.assertEqual(taken.returncode, 2)
        self.assertIn(f"output.metrics_port = {run.port} is taken: another program", taken.stdout + taken.stderr)


@unittest.skipUnless(all(map(shutil.which, PROGRAMS)), "prometheus and prometheus-node-exporter are not installed")
class Dashboard(Metrics):
    """Prometheus, which reads the file."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        exporter, cls.port = free_port(), free_port()
        running = Running(cls.folder)
        cls.addClassCleanup(running.stop)
        (cls.folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s}\nscrape_configs:\n"
            f"  - {{job_name: node, static_configs: [{{targets: ['127.0.0.1:{exporter}']}}]}}\n"
            f"  - {{job_name: convoy, static_configs: [{{targets: ['127.0.0.1:{running.port}']}}]}}\n")
        cls.start(["prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile",
                   f"--collector.textfile.directory={cls.folder}", f"--web.listen-address=127.0.0.1:{exporter}"])
        cls.start(["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{cls.port}"])
        cls.wait_for('convoy_step{run="run"}')
        cls.wait_for('convoy_loss{job="convoy"}')

    @classmethod
    def start(cls, command):
        with open(cls.folder / (command[0] + ".log"), "w") as log:
            process = subprocess.Popen(command, cwd=cls.folder, stdout=log, stderr=log)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.kill)

    @classmethod
    def query(cls, expression):
        where = f"http://127.0.0.1:{cls.port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(where, timeout=10) as answer:
            told = json.load(answer)
        if told["status"] != "success":
            raise AssertionError(told)
        return told["data"]["result"]

    @classmethod
    def wait_for(cls, expression):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                if cls.query(expression):
                    return
            except OSError:  # it has not begun to listen
                pass
            time.sleep(0.3)
        logs = "".join((cls.folder / f"{program}.log").read_text()[-1000:] for program in PROGRAMS)
        raise AssertionError(f"{expression} does not come\n{logs}")

    def test_each_panel_finds_numbers(self):
        for title, expression in expressions():
            with self.subTest(panel=title):
                found = self.query(expression)
                if not any(name in expression for name in NOT_EVERYWHERE):
                    self.assertTrue(found, expression)

    def test_values_are_the_run_s(self):
        self.assertEqual([result["value"][1] for result in self.query('convoy_step{run="run"}')], ["6"])
        self.assertEqual([result["value"][1] for result in self.query('convoy_running{run="run"}')], ["0"])
        self.assertEqual([result["value"][1] for result in self.query('convoy_running{job="convoy",run="running"}')], ["1"])


if __name__ == "__main__":
    unittest.main()
