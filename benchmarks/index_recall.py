#!/usr/bin/env python3
"""Recall of approximate indexes of vectors that `convoy export vectors` wrote, beside the exact search.

    pip install numpy faiss-cpu hnswlib
    convoy export vectors runs/first --output vectors --data sessions/valid.parquet
    benchmarks/index_recall.py vectors

Recall@k: the share of the k items with the largest scores that the index finds among its k. One thread.
"""
import sys
import time

import faiss
import numpy

K = 10
faiss.omp_set_num_threads(1)


def timed(search):
    began = time.perf_counter()
    found = search()
    return found, 1e3 * (time.perf_counter() - began)


def hnswlib_index(items, ef):
    import hnswlib

    index = hnswlib.Index(space="ip", dim=items.shape[1])
    index.init_index(max_elements=len(items), M=32, ef_construction=200)
    index.add_items(items, num_threads=1)
    index.set_ef(ef)
    return lambda sessions: index.knn_query(sessions, k=K, num_threads=1)[0]


def faiss_hnsw(items, ef):
    index = faiss.IndexHNSWFlat(items.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = 200
    index.add(items)
    index.hnsw.efSearch = ef
    return lambda sessions: index.search(sessions, K)[1]


def faiss_ivf(items, probes):
    lists = max(1, round(4 * len(items) ** 0.5))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(items.shape[1]), items.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
    index.train(items)
    index.add(items)
    index.nprobe = probes
    return lambda sessions: index.search(sessions, K)[1]


def main():
    folder = sys.argv[1]
    items, sessions = numpy.load(f"{folder}/items.npy"), numpy.load(f"{folder}/sessions.npy")[:2000]
    exact = faiss.IndexFlatIP(items.shape[1])
    exact.add(items)
    wanted, took = timed(lambda: exact.search(sessions, K)[1])
    print(f"{len(items):,} items of {items.shape[1]}, {len(sessions):,} sessions")
    print(f"{'index':28} recall@{K}  ms a session\n{'faiss IndexFlatIP':28} {1:9.4f}  {took / len(sessions):.3f}")
    for name, make, settings in (("faiss IndexHNSWFlat, ef", faiss_hnsw, (64, 256)),
                                 ("hnswlib, ef", hnswlib_index, (64, 256)),
                                 ("faiss IndexIVFFlat, nprobe", faiss_ivf, (16, 64))):
        for setting in settings:
            try:
                search = make(items, setting)
            except ModuleNotFoundError as error:
                print(f"{name:28} left out: there is no {error.name} here; try pip install {error.name}")
                break
            found, took = timed(lambda search=search: search(sessions))
            recall = numpy.mean([len(set(a) & set(b)) / K for a, b in zip(wanted, found)])
            print(f"{f'{name} {setting}':28} {recall:9.4f}  {took / len(sessions):.3f}")


if __name__ == "__main__":
    main()
