#include "convoy/schedule/program.h"

#include <fmt/format.h>

#include <algorithm>

namespace convoy::schedule {

int64_t ModelTable::last_reader_in_backward(int64_t unit) const {
  for (int64_t block = 0; block < num_blocks(); ++block) {
    const auto& units = units_of_block[static_cast<size_t>(block)];
    if (std::find(units.begin(), units.end(), unit) != units.end()) return block;
  }
  return 0;
}

std::vector<std::vector<int64_t>> ModelTable::units_finished_by_block() const {
  std::vector<int64_t> reader(unit_bytes.size(), 0);  // the lowest
  for (int64_t block = num_blocks() - 1; block >= 0; --block) {
    for (int64_t unit : units_of_block[static_cast<size_t>(block)]) {
      reader[static_cast<size_t>(unit)] = block;
    }
  }
  std::vector<std::vector<int64_t>> finished(units_of_block.size());
  for (int64_t unit = 0; unit < num_units(); ++unit) {
    finished[static_cast<size_t>(reader[static_cast<size_t>(unit)])].push_back(unit);
  }
  return finished;
}

std::vector<int64_t> ModelTable::backward_order() const {
  const auto finished = units_finished_by_block();
  std::vector<int64_t> order;
  for (auto units = finished.rbegin(); units != finished.rend(); ++units) {
    order.insert(order.end(), units->begin(), units->end());
  }
  return order;
}

std::vector<std::vector<int64_t>> make_buckets(const ModelTable& table, int64_t bucket_bytes) {
  std::vector<std::vector<int64_t>> buckets;
  int64_t filled = bucket_bytes;
  for (int64_t unit : table.backward_order()) {
    if (filled >= bucket_bytes) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().push_back(unit);
    filled += table.unit_bytes[static_cast<size_t>(unit)];
  }
  return buckets;
}

Program data_parallel_program(const ModelTable& table,
                              const std::vector<std::vector<int64_t>>& buckets,
                              int64_t num_micro_batches, const std::set<int64_t>& recomputed) {
  Program program;
  std::vector<int64_t> waiting;  // units of each bucket whose gradient is not complete yet
  std::vector<int64_t> bucket_of(table.unit_bytes.size());
  for (size_t b = 0; b < buckets.size(); ++b) {
    waiting.push_back(static_cast<int64_t>(buckets[b].size()));
    for (int64_t unit : buckets[b]) bucket_of[static_cast<size_t>(unit)] = static_cast<int64_t>(b);
  }
  const auto finished = table.units_finished_by_block();
  for (int64_t m = 0; m < num_micro_batches; ++m) {
    const bool last = m + 1 == num_micro_batches;
    program.push_back({Op::Load, -1, -1, m});
    for (int64_t block = 0; block < table.num_blocks(); ++block) {
      program.push_back({Op::Forward, block, -1, m});
    }
    program.push_back({Op::Loss, -1, -1, m});
    for (int64_t block = table.num_blocks() - 1; block >= 0; --block) {
      if (recomputed.contains(block)) program.push_back({Op::Recompute, block, -1, m});
      program.push_back({Op::Backward, block, -1, m});
      for (int64_t unit : finished[static_cast<size_t>(block)]) {
        program.push_back({Op::Accumulate, -1, unit, m});
        int64_t bucket = bucket_of[static_cast<size_t>(unit)];
        if (last && --waiting[static_cast<size_t>(bucket)] == 0) {
          program.push_back({Op::Reduce, -1, bucket, -1});
        }
      }
    }
  }
  program.push_back({Op::ReduceLoss});
  program.push_back({Op::Clip});
  program.push_back({Op::OptimizerStep});
  return program;
}

std::string to_text(const Instruction& i) {
  switch (i.op) {
    case Op::Load:
      return fmt::format("load, micro-batch {}", i.micro_batch);
    case Op::Forward:
      return fmt::format("forward block {}, micro-batch {}", i.block, i.micro_batch);
    case Op::Loss:
      return fmt::format("loss, micro-batch {}", i.micro_batch);
    case Op::Recompute:
      return fmt::format("recompute block {}, micro-batch {}", i.block, i.micro_batch);
    case Op::Backward:
      return fmt::format("backward block {}, micro-batch {}", i.block, i.micro_batch);
    case Op::Accumulate:
      return fmt::format("accumulate unit {}, micro-batch {}", i.unit, i.micro_batch);
    case Op::Reduce:
      return fmt::format("reduce bucket {}", i.unit);
    case Op::ReduceLoss:
      return "reduce loss";
    case Op::Clip:
      return "clip";
    case Op::OptimizerStep:
      return "optimizer step";
  }
  return "?";
}

std::string to_text(const Program& program) {
  std::string out;
  for (const auto& instruction : program) out += to_text(instruction) + "\n";
  return out;
}

}  // namespace convoy::schedule
