#pragma once

#include "convoy/train/logging/clock.h"
#include "convoy/train/loop/run_context.h"
#include "convoy/train/loop/train_memory.h"

namespace convoy::train {

/// Beginning of a training that does not go on from a checkpoint of its job, in seconds since 1970:
/// of the first one of a process the job's first start, whose launcher tells it, of later ones (of
/// windows) their own.
double beginning_in_job(const RunContext& run);

/// Part of a job's time that went into steps that count, in [0, 1]. The time runs from the job's
/// first start, so what restarts cost and steps that are made again are losses; without a launcher
/// from this run's beginning.
double goodput(const RunContext& run);

/// Results of a training: rates, loss, traffic since `before`, memory. Collective.
Metrics results(const RunContext& run, const Clock& clock, const comm::Traffic& before,
                TrainMemory& memory);

/// Results of a start that only saved what earlier ones had trained: no times and rates, which are
/// not those of the training.
Metrics of_earlier_starts(const Metrics& metrics);

}  // namespace convoy::train
