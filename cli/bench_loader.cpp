#include <chrono>

#include "cli/bench.h"
#include "cli/program.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"

namespace convoy::cli {

int bench_loader(const LoaderBench& options) {
  if (options.epochs < 1) {
    fail<UsageError>("cli", "--epochs = {}; expected at least 1", options.epochs);
  }
  const auto configured = read_config(options.config);
  const auto& arguments = configured->training;
  const auto run = configured->task->prepare(arguments.parallel);
  train::StreamOptions stream_options;
  stream_options.layout.per_device_batch = arguments.per_device_train_batch_size;
  stream_options.layout.accumulation = arguments.gradient_accumulation_steps;
  stream_options.seed = static_cast<uint64_t>(arguments.seed);

  const auto opening = std::chrono::steady_clock::now();
  auto stream = run.train_data->open(stream_options);
  stream->start(0, 0);
  auto step = stream->next();
  const double first = seconds_since(opening);
  int64_t rows = 0, epoch = 0;
  double first_epoch = 0;
  const auto began = std::chrono::steady_clock::now();
  while (true) {
    for (; step; step = stream->next()) {
      for (int64_t samples : step->num_samples) rows += samples;
    }
    if (++epoch == 1) first_epoch = seconds_since(began);
    if (epoch == options.epochs) break;
    stream->start(epoch, 0);
    step = stream->next();
  }
  const double seconds = seconds_since(began);
  const auto total = static_cast<double>(rows);
  const auto epochs = static_cast<double>(options.epochs);
  const Json json{{"rows", rows},
                  {"rows_per_second", total / seconds},
                  {"first_epoch_rows_per_second", total / epochs / first_epoch},
                  {"first_batch_ms", first * 1e3}};
  if (options.json) {
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print(
        "{} epochs, {} rows: {:.0f} rows/s (first epoch {:.0f}), first batch after {:.1f} ms\n",
        options.epochs, human_count(rows), json["rows_per_second"].get<double>(),
        json["first_epoch_rows_per_second"].get<double>(), first * 1e3);
  }
  return 0;
}

}  // namespace convoy::cli
