#!/usr/bin/env python3
"""Prints a folder's TensorBoard scalars as JSON, {tag: [[step, value], ...]}, as TensorBoard itself reads them."""
import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1])
events.Reload()
# Summaries of old are migrated to tensors while they are read.
from tensorboard.util import tensor_util

print(json.dumps({
    tag: [[e.step, float(tensor_util.make_ndarray(e.tensor_proto))] for e in events.Tensors(tag)]
    for tag in events.Tags()["tensors"]
} | {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
