#pragma once

#include <cstdint>
#include <string_view>

// Faults that tests put into a run, to prove that nothing hangs and everyone is told why:
// CONVOY_FAULT=kind@rank:phase:step, such as sigkill@1:backward:3 (docs/faults.md). A fourth number
// names the start of the job, 0 unless given; commas stand between several faults.
namespace convoy {

/// Part of a fault that the caller has to carry out, because it knows the numbers and the group.
enum class Fault {
  kNone,
  kNan,       ///< spoil what is at hand with NaN
  kDouble,    ///< double what is at hand: a wrong number that nothing else would notice
  kSkip,      ///< leave out the operation
  kMismatch,  ///< call a collective that the other ranks do not call
};

/// Reads CONVOY_FAULT for this process: `rank`, or with `threads` of several all ranks of the job.
/// A start of a job suffers those that name it; others are the first's, so that a restart can
/// succeed. Throws UsageError when it makes no sense, or names none of `num_ranks`.
void arm_fault(int rank, int num_ranks, int restart_count, bool threads = false);

/// Makes this thread rank `rank` of a process whose ranks are threads: only that rank's faults
/// happen in it.
void suffer_faults_of(int rank);
/// Returns the rank that CONVOY_FAULT names, in a process whose ranks are threads; else 0.
int faulty_thread();

/// Whether a fault of this rank is to happen in a phase.
bool fault_is_armed(std::string_view phase);

/// Called at the start of each phase: start, forward, layer (a collective inside one), backward,
/// layer_backward, backward_weight, reduce, gather, update, offload, send, receive, evaluation,
/// saving; and where a step's numbers are made: count (of targets), norm (of the rank's gradients),
/// mask (the indices of rows by which dropout draws); where the state is copied to memory: copy
/// (half of it), copy_send (half of the ranks have sent other hosts their parts), copy_sum,
/// copy_end; bring (half of a copy came from another host); resume (the
/// weights were read, the moments were not); instruction (whose number in this start stands in
/// place of the step). When it and the step (see tell_step) are those of CONVOY_FAULT, the fault
/// happens: the process is killed, stopped, left (exit), an exception is thrown (exception, oom),
/// time passes (slow; lag: a little, also in each later step).
Fault fault_at(std::string_view phase);

/// Whether a fault (nodata) wants this rank's data to end now. Once.
bool fault_ends_data();

/// Throws UsageError, on all ranks alike, where CONVOY_FAULT names a step before the first that the
/// run has: 0 where it evaluates before it trains or without training, else 1.
void refuse_faults_before(int64_t first_step);

}  // namespace convoy
