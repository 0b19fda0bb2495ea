#!/usr/bin/env python3
"""Makes functions of convoy do nothing, one after the other, as an edit that loses them would: a scenario must see each.

skipped_functions.py [PART OF A NAME...]
"""
import sys

from ignored_sites import SCENARIOS, Hunt
from layouts import RANKS, batches


def never_comes(runs, options):
    """A rank that stops before a collective; as it should be where the other one names that."""
    result = runs.train("gpt2", (*RANKS[2], *batches(4, 1), "--ddp_timeout", "3"), 2, options, (("CONVOY_FAULT", "sigstop@1:reduce:2"),),
                        timeout=60)
    result.code = 0 if "[comm] 'reduce bucket 0' did not finish within 3 s on the GPU" in result.out else 1
    return result


# Functions that return nothing, and who is to see that they do nothing. Gathers::settle is not among them: on a GPU whoever
# reads weights on the host waits for every collective by itself (comm::download), so nothing is left to see.
FUNCTIONS = {
    "convoy::comm::finish_pending": "never_comes",
    "convoy::comm::use_device": "own_module_dp",
    "convoy::comm::C10dWork::wait": "zero2",
    "convoy::comm::ThenWork::wait": "pipeline",
    "convoy::comm::TicketWork::wait": "ddp2_shm",
    "convoy::parallel::FlatBuffers::detach": "offload_all",
    "convoy::parallel::FlatBuffers::publish": "ddp2_bf16",
    "convoy::parallel::FlatBuffers::publish_weights": "ddp2_bf16",
    "convoy::parallel::Gathers::await": "offload_all",
    "convoy::parallel::Gradients::accumulate": "zero1_accumulate",
    "convoy::parallel::Gradients::reduce": "session",
    "convoy::parallel::Gradients::reduce_scatter": "zero2",
    "convoy::parallel::Gradients::reduce_tied": "pipeline",
    "convoy::parallel::Gradients::wait": "hybrid3",
    "convoy::parallel::Offload::drop": "offload_all",
    "convoy::parallel::Offload::store": "offload_step",
    "convoy::parallel::Replica::share": "zero2",
    "convoy::parallel::Update::add_squares": "session",
}


def main():
    hunt = Hunt({**SCENARIOS, "never_comes": never_comes})
    wanted = sys.argv[1:]
    missed = 0
    try:
        for function, scenario in FUNCTIONS.items():
            if wanted and not any(one in function for one in wanted):
                continue
            seen = hunt.seen(f"skip={function}", [scenario])
            if seen and "the program has no function" in seen:
                missed, seen = missed + 1, "CANNOT BE SKIPPED: no function of that name, or it became a part of its callers"
            missed += seen is None
            print(f"{function}\n    {seen or 'NOT SEEN by ' + scenario}", flush=True)
        return 1 if missed else 0
    finally:
        hunt.runs.remove()


if __name__ == "__main__":
    sys.exit(main())
