#!/usr/bin/env python3
"""Writes lr_schedules.json: the rates of transformers' schedules, which lr_schedule_test.cpp compares.

make_lr_fixture.py      Needs torch and transformers==5.24.0.
"""
import json
import pathlib

import torch
import transformers

PEAK, WARMUP, STEPS = 3e-3, 5, 40
CASES = [
    ("linear", {}), ("constant", {}), ("constant_with_warmup", {}), ("cosine", {}), ("cosine", {"num_cycles": 1.25}),
    ("cosine_with_restarts", {}), ("cosine_with_restarts", {"num_cycles": 3}),
    ("cosine_with_min_lr", {"min_lr_rate": 0.1}), ("cosine_with_min_lr", {"min_lr": 1e-4, "num_cycles": 0.8}),
    ("polynomial", {}), ("polynomial", {"lr_end": 1e-4, "power": 2}),
    ("inverse_sqrt", {}), ("inverse_sqrt", {"timescale": 12}),
    ("warmup_stable_decay", {"num_decay_steps": 10}),
    ("warmup_stable_decay", {"num_decay_steps": 10, "min_lr_ratio": 0.1, "decay_type": "linear", "warmup_type": "cosine"}),
    ("warmup_stable_decay", {"num_decay_steps": 8, "num_stable_steps": 12, "min_lr_ratio": 0.2, "decay_type": "1-sqrt",
                             "warmup_type": "1-sqrt"}),
    ("warmup_stable_decay", {"num_decay_steps": 30, "num_cycles": 0.75}),
]


def rates(kind, settings):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    schedule = transformers.get_scheduler(kind, optimizer, WARMUP, STEPS, scheduler_specific_kwargs=settings)
    out = []
    for _ in range(STEPS + 3):
        out.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return out


cases = [{"type": kind, "kwargs": settings, "rates": rates(kind, settings)} for kind, settings in CASES]
lines = ",\n".join(json.dumps(case) for case in cases)
text = f'{{"peak": {PEAK}, "warmup": {WARMUP}, "steps": {STEPS}, "cases": [\n{lines}]}}\n'
(pathlib.Path(__file__).parent / "lr_schedules.json").write_text(text)
