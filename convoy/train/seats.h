#pragma once

#include <string>
#include <vector>

#include "convoy/train/job.h"

namespace convoy::train {

/// Where one rank runs.
struct Seat {
  std::string host;
  std::string device;
  std::string cores;  ///< of the processor, that it may use: "0-3"
};

/// The seats of all ranks, by rank. To be called by every rank; what is long is cut.
std::vector<Seat> gather_seats(const Job& job);

/// A table of the seats, or "" where it would tell nothing: all ranks on one host, on CPU, with the
/// same cores.
std::string seats_table(const std::vector<Seat>& seats);

}  // namespace convoy::train
