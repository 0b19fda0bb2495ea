#!/usr/bin/env python3
"""Oracle: NDCG@10, recall@10 and their standard error, of lists of recommended items beside the last event of each user.

  lists_ndcg.py EVENTS LISTS [--new]     EVENTS: CSV of user,item,at, sorted; LISTS: CSV of user,item,rank, or the answers of `convoy predict --requests` (.jsonl)
"""
import argparse
import csv
import json
import math

parser = argparse.ArgumentParser()
parser.add_argument("events")
parser.add_argument("lists")
parser.add_argument("--new", action="store_true", help="only users whose last item they had not had before")
arguments = parser.parse_args()
history = {}
with open(arguments.events) as events:
    for row in csv.DictReader(events):
        history.setdefault(row["user"], []).append(row["item"])
gains = {user: 0.0 for user, items in history.items() if not arguments.new or items[-1] not in items[:-1]}
if arguments.lists.endswith(".jsonl"):
    with open(arguments.lists) as file:
        answers = [json.loads(line) for line in file]
    lists = [(answer["id"], item["item_id"], rank) for answer in answers for rank, item in enumerate(answer["items"], 1)]
else:
    with open(arguments.lists) as file:
        lists = [(row["user"], row["item"], int(row["rank"])) for row in csv.DictReader(file)]
for user, item, rank in lists:
    if user in gains and item == history[user][-1]:
        gains[user] = 1 / math.log2(rank + 1)
count = len(gains)
mean = sum(gains.values()) / count
error = math.sqrt(sum((gain - mean) ** 2 for gain in gains.values()) / max(count - 1, 1) / count)
print(f"{mean:.4f} {sum(gain > 0 for gain in gains.values()) / count:.4f} {error:.4f} {count}")
