#include "convoy/train/trainer.h"

#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/comm/agree.h"
#include "convoy/job/numerics.h"
#include "convoy/parallel/run_plan/run_plan_text.h"
#include "convoy/train/checkpoints/run_files.h"
#include "convoy/train/logging/console.h"
#include "convoy/train/logging/event_stream.h"
#include "convoy/train/logging/log_files.h"
#include "convoy/train/logging/metrics_file.h"
#include "convoy/train/logging/metrics_server.h"
#include "convoy/train/loop/make_strategy.h"
#include "convoy/train/loop/torch_seed.h"
#include "convoy/train/loop/trainer_impl.h"

namespace convoy::train {

namespace {

/// Checks the options before a device or a thread is taken for them. Returns those of the ranks.
const options::ParallelArguments& checked(const options::TrainingArguments& arguments) {
  arguments.check(/*trains=*/false, /*evaluates=*/false);
  return arguments.parallel;
}

void add_loggers(RunContext& run, bool trains) {
  const auto& arguments = run.arguments;
  auto& callbacks = run.callbacks;
  const auto told = [&callbacks](const std::string& text) { callbacks.warn(text); };
  callbacks.add(make_log_file(told));
  callbacks.add(make_console(arguments.output.quiet));
  if (!trains) return;
  if (!arguments.output.events.empty() && run.job.environment.rank == 0) {
    callbacks.add(make_event_stream(arguments.output.events, told));
  }
  if (!arguments.output.metrics_file.empty() && run.job.environment.rank == 0) {
    callbacks.add(make_metrics_file(arguments.output.metrics_file, told));
  }
  if (arguments.output.metrics_port > 0 && run.job.environment.rank == 0) {
    callbacks.add(make_metrics_server(arguments.output.metrics_port));
  }
  if (arguments.report_to == "tensorboard") {
    callbacks.add(make_tensorboard(arguments.events_folder(), told));
  }
}

/// Checks options against each other and between ranks, and makes GPUs deterministic where that is
/// asked for. Throws UsageError. Collective.
void check_options(const RunContext& run, bool trains, bool evaluates) {
  const auto& arguments = run.arguments;
  const auto& device = run.job.devices.at(0);
  arguments.check(trains, evaluates);
  if (trains) check_memory_copies(arguments, run.job);
  refuse_faults_before(trains && !arguments.eval_on_start ? 1 : 0);
  if (trains) per_device_rows(run, arguments.per_device_train_batch_size);
  if (evaluates) per_device_rows(run, arguments.per_device_eval_batch_size);
  if (trains && arguments.tf32 && device.is_cpu()) {
    fail<UsageError>("train", "tf32 is for GPUs; got the CPU; try leaving it out, or bf16");
  }
  if (arguments.deterministic && device.is_cuda()) job::make_gpus_deterministic();
  // Ranks that were started one by one may have been given others.
  comm::check_agreement(run.job.world(), arguments.shared_options(), "options");
}

/// Throws the error of a step that is not finite with the command that shows where, where there is
/// a checkpoint for it.
void name_replay(const RunContext& run, const std::exception& any) {
  const auto* error = dynamic_cast<const NumericError*>(&any);
  const auto& folder = run.arguments.output.dir;
  const int64_t step = run.state.global_step + 1;
  if (error == nullptr || folder.empty()) return;
  const std::string text = error->what();
  if (text.find(fmt::format(" of step {} is not finite", step)) == std::string::npos) return;
  if (!checkpoint::latest_checkpoint(folder)) return;
  NumericError more(
      fmt::format("{}; convoy replay {} --step {} shows in which block", text, folder, step));
  if (error->on_all_ranks()) more.set_on_all_ranks();
  throw more;
}

}  // namespace

Trainer::Trainer(parallel::ModelFactory factory, options::TrainingArguments arguments,
                 std::shared_ptr<dataset::Dataset> train_data,
                 std::shared_ptr<dataset::Dataset> eval_data)
    : Trainer(std::move(factory), arguments, std::move(train_data), std::move(eval_data),
              job::join_job(checked(arguments))) {}

Trainer::Trainer(parallel::ModelFactory factory, options::TrainingArguments arguments,
                 std::shared_ptr<dataset::Dataset> train_data,
                 std::shared_ptr<dataset::Dataset> eval_data, Fill fill)
    : Trainer(std::move(factory), arguments, std::move(train_data), std::move(eval_data),
              job::join_job(checked(arguments)), std::move(fill)) {}

Trainer::Trainer(parallel::ModelFactory factory, options::TrainingArguments arguments,
                 std::shared_ptr<dataset::Dataset> train_data,
                 std::shared_ptr<dataset::Dataset> eval_data, job::Job job, Fill fill)
    : impl_(std::make_unique<Impl>(std::move(factory), std::move(arguments), std::move(train_data),
                                   std::move(eval_data), std::move(job), std::move(fill))) {}

Trainer::~Trainer() = default;

void Trainer::set_files(ModelFiles files) {
  const auto csv = parallel::pipeline_csv(impl_->run_.strategy->replica().plan());
  if (!csv.empty()) files.texts[kPipeline] = csv;
  impl_->checkpoints_->set_files(std::move(files));
}
void Trainer::set_scorer(MakeScorer make_scorer) {
  impl_->evaluator_.set_scorer(std::move(make_scorer));
}
void Trainer::add_callback(std::shared_ptr<Callback> callback) {
  if (!callback) fail<UsageError>("train", "a callback is null; expected an object");
  impl_->run_.callbacks.add(std::move(callback));
}
void Trainer::before_first_step(std::function<void()> work) {
  impl_->before_first_step_ = std::move(work);
}
void Trainer::set_pace(std::function<void(LogRecord&)> pace) {
  impl_->log_.set_pace(std::move(pace));
}
void Trainer::observe(parallel::PassObserver& observer, int64_t step) {
  impl_->observer_ = &observer;
  impl_->observed_step_ = step;
}
void Trainer::stop_on(std::function<const std::atomic<int>&()> listen) {
  impl_->stop_.set(std::move(listen));
}
Metrics Trainer::train() try { return impl_->train(); } catch (const std::exception& any) {
  // Keeps the checkpoint under way only where all ranks throw: otherwise the others would not
  // answer.
  const auto* error = dynamic_cast<const Error*>(&any);
  const bool alone = impl_->run_.strategy->processes().size() == 1;
  if (alone || (error != nullptr && error->on_all_ranks())) impl_->checkpoints_->keep();
  name_replay(impl_->run_, any);
  if (const auto& sizer = impl_->batch_sizer_; sizer.ran_out(any)) {
    fail<UsageError>("memory", "{}", sizer.beyond_device_memory(impl_->memory_.note()));
  }
  throw;
}
int Trainer::stopped_by() const {
  return impl_->stop_.ended_by;
}
Metrics Trainer::evaluate() {
  const auto& data = impl_->eval_data_;
  if (!data) fail<UsageError>("train", "there is no evaluation data; got none");
  return evaluate(*data, "eval_");
}
Metrics Trainer::evaluate(const dataset::Dataset& data, const std::string& prefix) {
  return impl_->evaluator_.evaluate(data, prefix).value_or(Metrics());
}
Metrics Trainer::evaluate_end() {
  if (evaluated_last_step()) return impl_->evaluations_.metrics();
  auto metrics = evaluate();
  if (!metrics.empty()) save_metrics("eval", metrics);
  return metrics;
}
void Trainer::predict(const dataset::Dataset& data, const UsePrediction& use, int64_t most,
                      nn::Mode mode) {
  impl_->evaluator_.predict(data, use, most, mode);
}
void Trainer::save_metrics(const std::string& split, const Metrics& metrics) {
  impl_->checkpoints_->save_metrics(split, metrics);
}
void Trainer::load_weights(const std::filesystem::path& folder) {
  impl_->checkpoints_->load_weights(folder);
}
void Trainer::load_moments(const std::filesystem::path& checkpoint) {
  impl_->earlier_updates_ = impl_->checkpoints_->load_moments(checkpoint);
}
bool Trainer::is_main() const {
  return impl_->run_.job.is_main();
}

const job::Job& Trainer::job() const {
  return impl_->run_.job;
}
const options::TrainingArguments& Trainer::arguments() const {
  return impl_->run_.arguments;
}
const TrainerState& Trainer::state() const {
  return impl_->run_.state;
}
bool Trainer::evaluated_last_step() const {
  return impl_->evaluations_.are_of_last_step();
}
parallel::Strategy& Trainer::strategy() {
  return *impl_->run_.strategy;
}

Trainer::Impl::Impl(parallel::ModelFactory factory, options::TrainingArguments arguments,
                    std::shared_ptr<dataset::Dataset> train_data,
                    std::shared_ptr<dataset::Dataset> eval_data, job::Job job, Fill fill)
    : run_{std::move(arguments), std::move(job), CallbackHandler(run_.job.environment.rank)},
      factory_(seeded(std::move(factory), static_cast<uint64_t>(run_.arguments.seed))),
      train_data_(std::move(train_data)),
      eval_data_(std::move(eval_data)) {
  const auto& process = run_.job.environment;
  const bool in_threads = run_.job.in_threads();
  arm_fault(process.rank, in_threads ? run_.job.num_devices() : process.world_size,
            process.restart_count, in_threads);
  add_loggers(run_, train_data_ != nullptr);
  check_options(run_, train_data_ != nullptr, eval_data_ != nullptr);
  batch_sizer_.set_batch();
  run_.strategy = make_strategy(run_, factory_, train_data_.get(), std::move(fill));
  checkpoints_.emplace(run_.arguments, run_.job, *run_.strategy, run_.callbacks);
  checkpoints_->set_stop_signal(
      [this](const comm::Group& group) { return stop_.of_any_rank(group); });
}

}  // namespace convoy::train
