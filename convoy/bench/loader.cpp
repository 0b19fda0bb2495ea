#include "convoy/bench/loader.h"

#include <chrono>

#include "convoy/base/timing.h"
#include "convoy/options/batch.h"

namespace convoy::bench {

LoaderTimes time_loader(tasks::Task& task, options::TrainingArguments arguments, int64_t epochs) {
  options::hold_batch(arguments, 1);
  const auto run = task.prepare(arguments.parallel);
  data::StreamOptions stream_options;
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
    if (epoch == epochs) break;
    stream->start(epoch, 0);
    step = stream->next();
  }
  const double seconds = seconds_since(began);
  const auto total = static_cast<double>(rows);
  LoaderTimes out;
  out.epochs = epochs;
  out.rows = rows;
  out.rows_per_second = total / seconds;
  out.first_epoch_rows_per_second = total / static_cast<double>(epochs) / first_epoch;
  out.first_batch_ms = first * 1e3;
  return out;
}

Json to_json(const LoaderTimes& times) {
  return {{"rows", times.rows},
          {"rows_per_second", times.rows_per_second},
          {"first_epoch_rows_per_second", times.first_epoch_rows_per_second},
          {"first_batch_ms", times.first_batch_ms}};
}

}  // namespace convoy::bench
