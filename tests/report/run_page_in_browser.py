#!/usr/bin/env python3
"""Opens what `convoy report` writes in a browser: it draws, answers the keyboard, and fits a narrow screen, light and dark.

    tests/report/run_page_in_browser.py CONVOY FOLDER      ends with 77 (skipped) where there is no playwright or no chromium
"""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    print("skipped: this Python has no playwright")
    sys.exit(77)
chromium = shutil.which("chromium") or shutil.which("google-chrome")
if not chromium:
    print("skipped: there is no chromium")
    sys.exit(77)

convoy, folder = sys.argv[1], Path(sys.argv[2])
shutil.rmtree(folder, ignore_errors=True)


def make_run(name, lines, rate):
    run = folder / name
    run.mkdir(parents=True)
    (run / "run.toml").write_text(f'[train]\nlearning_rate = {rate}\n[model]\nfamily = "gpt2"\n')
    with (run / "log.jsonl").open("w") as log:
        for step in range(1, lines + 1):
            log.write(json.dumps({"step": step, "loss": 5 - 4 * step / lines, "grad_norm": 1 + step % 7, "memory_bytes": 3 << 30,
                                  "memory_parameters": 1 << 30, "memory_optimizer": 2 << 30, "samples_per_second": 100}) + "\n")
            if step % (lines // 4) == 0:
                log.write(json.dumps({"step": step, "eval_loss": 5 - step / lines}) + "\n")
    return run


def seconds_to_open(page, file):
    begin = time.monotonic()
    page.goto(file.as_uri())
    page.wait_for_function("document.body.dataset.ready")
    return time.monotonic() - begin


small = [make_run("first", 40, 1e-3), make_run("second", 20, 2e-3)]
output = folder / "report.html"
picture = folder / "step.svg"
picture.write_text('<svg xmlns="http://www.w3.org/2000/svg" width="90" height="20"><text y="15">a step</text></svg>')
plan = small[0] / "checkpoint-1" / "plan.json"
plan.parent.mkdir()
plan.write_text(json.dumps({"split": "2 data ranks", "seconds": 0.02, "memory_bytes": 3 << 30}))
(small[0] / "all_results.json").write_text(json.dumps({
    "train_samples_per_second": 100, "train_steps_per_second": 10, "train_steady_samples_per_second": 400,
    "memory_parameters_bytes_per_rank": 3 << 30}))
with (small[0] / "log.jsonl").open("a") as log:
    log.write('{"train_loss": 3, "train_runtime": 4}\n')  # it ended
trace = folder / "trace.json"
marks = ("start: reduce bucket 0, 1048576 bytes", 0, 1500), ("wait: reduce bucket 0", 1500, 500), ("clip", 2000, 1)
trace.write_text(json.dumps({"distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [
    {"ph": "X", "cat": "user_annotation", "name": name, "ts": begin, "dur": length, "tid": 1, "pid": 1} for name, begin, length in marks]}))
subprocess.run([convoy, "report", *small, "--output", output, "--picture", picture, "--trace", trace], check=True)
large = make_run("large", 60_000, 1e-3)
many = [make_run(f"run{i}", 100, i * 1e-4 + 1e-5) for i in range(50)]
begin = time.monotonic()
subprocess.run([convoy, "report", large, "--output", folder / "large.html"], check=True)
print(f"{(large / 'log.jsonl').stat().st_size / 1e6:.1f} MB of log: written in {time.monotonic() - begin:.2f} s")
subprocess.run([convoy, "report", *many, "--output", folder / "many.html"], check=True)



def make_evaluated(name, ndcg, error, rows=100):
    """A recommender that was evaluated once, at its end."""
    run = make_run(name, 8, 1e-3)
    log = [line for line in (run / "log.jsonl").read_text().splitlines() if "eval_" not in line]
    start = {"start": {"time": "2026-11-29T01:02:03Z", "host": "here", "device": "cpu", "ranks": 2, "num_parameters": 120640}}
    (run / "log.jsonl").write_text("\n".join([json.dumps(start), *log, '{"train_runtime": 75}']) + "\n")
    (run / "run.toml").write_text(f'[model]\nbody = "sasrec"\nd_model = 64\nn_layer = 2\n[data]\npath = "the/shop"\n[train]\nseed = {rows}\n')
    (run / "all_results.json").write_text(json.dumps({
        "eval_loss": 5, "eval_samples": rows, "eval_ndcg_at_10": ndcg, "eval_ndcg_at_5": ndcg / 2, "eval_avg_precision_at_10": ndcg,
        "eval_ndcg_at_10_stderr": error, "eval_ndcg_at_5_stderr": error, "eval_popularity_baseline_ndcg_at_10": 0.05,
        "eval_spent_mse": 1 - ndcg, "eval_spent_mse_stderr": error, "train_runtime": 75, "peak_memory_bytes_per_rank": 200 << 20}))
    return run


evaluated = [make_evaluated("ahead", 0.4, 0.01), make_evaluated("behind", 0.3, 0.01)]
near = [make_evaluated("a", 0.4, 0.01), make_evaluated("b", 0.39, 0.01)]
weeks = folder / "weeks"
weeks.mkdir()
windows = [{"trained_on": f"000{i}", "evaluated_on": f"000{i + 1}", "metrics": {
    "eval_ndcg_at_10": i / 10, "eval_ndcg_at_10_stderr": 0.01, "eval_popularity_baseline_ndcg_at_10": 0.05}} for i in (1, 2)]
(weeks / "results_over_time.json").write_text(json.dumps({"windows": windows, "average": windows[0]["metrics"]}))
for name, runs in ("evaluated", evaluated), ("near", near), ("weeks", [weeks]):
    subprocess.run([convoy, "report", *runs, "--output", folder / f"{name}.html"], check=True)

with sync_playwright() as play:
    browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    for width, height, scheme in (1280, 900, "light"), (1280, 900, "dark"), (390, 844, "light"):
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        troubles = []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: troubles.append(request.url) if not request.url.startswith("file:") else None)
        seconds_to_open(page, output)
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), "wider than the screen"
        assert page.locator("svg.chart").count() == int(page.evaluate("document.body.dataset.ready")), "charts"
        loss = page.locator("figure", has_text="loss").first
        loss.locator("svg").focus()
        page.keyboard.press("End")
        page.keyboard.press("ArrowLeft")
        told = loss.locator("figcaption span").inner_text()
        assert told.startswith("step 39: first 1.1"), told
        assert page.get_by_text("train.learning_rate", exact=True).count() >= 1, "options that differ"
        assert page.locator("th", has_text="second (not ended)").count() == 2, "results of evaluations and of the training"
        planned = page.locator("tr", has_text="2 data ranks").inner_text().split("\t")
        assert planned == ["first", "2 data ranks", "20 ms", "25 ms", "+25 %", "3 GiB", "3 GiB", "0 %"], planned
        assert page.locator("tr", has_text="up to 1 MiB").inner_text().split("\t")[1:] == ["1", "1 MiB", "2 ms"], "collectives"
        assert page.get_by_alt_text("picture").evaluate("(image) => image.naturalWidth") == 90, "picture"
        page.get_by_role("checkbox", name="second").uncheck()
        page.wait_for_timeout(100)
        assert page.locator("svg.chart").first.locator("path").count() == 1, "a run that is not shown"
        assert not troubles, troubles
        page.screenshot(path=folder / f"{width}-{scheme}.png")
        page.close()
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    seconds_to_open(page, folder / "evaluated.html")
    of_run = page.locator("tr", has_text="UTC").first.inner_text().split("\t")
    assert of_run == ["ahead", "2026-11-29 01:02 UTC", "the/shop", "sasrec, 2 x 64", "120,640", "here, 2 x cpu", "1 min 15 s", "200 MiB"], of_run
    best = ["0.2000 \u00b1 0.0100", "0.4000 \u00b1 0.0100", "0.6000 \u00b1 0.0100"]  # of an error the less
    assert sorted(page.locator("td.best").all_inner_texts()) == best, "ahead by more than the error"
    assert page.locator("tr", has_text="NDCG@10, popular items").inner_text().split("\t")[1:] == ["0.0500", "0.0500"], "popularity"
    assert page.get_by_text("avg precision").count() + page.get_by_text("AP@10").count() == 0, "a metric by two names"
    ndcg = page.locator("figure", has_text="NDCG@10").first
    assert ndcg.locator("circle").count() == 2 and ndcg.locator("line[stroke-dasharray]").count() == 1, "dots, and popularity"
    assert [ndcg.locator("text.axis").nth(i).text_content() for i in (0, 1)] == ["step", "NDCG@10"], "axes"
    page.screenshot(path=folder / "evaluated.png", full_page=True)
    seconds_to_open(page, folder / "near.html")
    assert page.locator("td.best").count() == 0, "within the error nobody is the best"
    seconds_to_open(page, folder / "weeks.html")
    assert page.locator("h2", has_text="Results over time").count() == 1, "over time"
    assert page.locator("tr", has_text="trained on 0002").inner_text().split("\t")[1:3] == ["0003", "0.2000 \u00b1 0.0100"], "over time"
    page.close()
    page = browser.new_page()
    for name, most in ("large", 1), ("many", 2):
        seconds = min(seconds_to_open(page, folder / f"{name}.html") for _ in range(3))
        print(f"{name}: opens in {seconds:.2f} s")
        assert seconds < 4 * most, seconds  # other tests run beside it
    browser.close()
print("ok")
