#include "convoy/tasks/preference/reference_pass.h"

#include <ATen/ATen.h>

#include <chrono>
#include <unordered_map>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/comm/agree.h"
#include "convoy/report/live_line.h"
#include "convoy/report/progress_output.h"
#include "convoy/tasks/each_row.h"
#include "convoy/train/state.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

/// Log-probabilities that a run has kept, and their file.
struct Found {
  fs::path file;
  at::Tensor values;  ///< of ReferenceLogProbs::keys(); undefined: there is none
};

/// Files to search, the best first: a resumed run has its own beside its checkpoint.
std::vector<fs::path> files_in(const ReferencePlace& place, bool resumes) {
  auto folders = resumes ? place.resumed : std::vector<fs::path>();
  if (!place.output.empty()) folders.push_back(place.output);
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& folder : folders) {
    const auto file = folder / kReferenceFile;
    if (fs::is_regular_file(file, error)) out.push_back(file);
  }
  return out;
}

/// Kept values of a resumed run, whose weights are no longer the reference's.
Found of_resumed(const ReferenceLogProbs& log_probs, const ReferencePlace& place) {
  const auto files = files_in(place, /*resumes=*/true);
  if (files.empty()) {
    fail<FileError>("tasks",
                    "there is no {} in {}, which keeps the reference's log-probabilities: the "
                    "weights to go on from are no longer the reference's; try to copy it there "
                    "from the run's first folder, or start anew",
                    kReferenceFile,
                    place.resumed.empty() ? place.output.string() : place.resumed[0].string());
  }
  const auto& file = files.front();
  const auto kept = KeptReference::read(file);
  if (kept.weights != place.weights) {
    fail<UsageError>("tasks",
                     "{} holds the log-probabilities of another reference than {}; try the model "
                     "and the ref_model_name_or_path that the run began with, or start anew",
                     file.string(), place.model);
  }
  const auto values = kept.of(log_probs.keys());
  if (values.defined()) return {file, values};
  fail<UsageError>("tasks",
                   "{} lacks the reference's log-probabilities of some of this run's pairs; try "
                   "the files, the template and the max_length that the run began with, or start "
                   "anew",
                   file.string());
}

/// Kept values of a run that ended before its first checkpoint, where this run would compute the
/// same.
Found of_new(const ReferenceLogProbs& log_probs, const ReferencePlace& place) {
  for (const auto& file : files_in(place, /*resumes=*/false)) {
    try {
      const auto kept = KeptReference::read(file);
      const bool same = kept.weights == place.weights && kept.precision == place.precision;
      if (same) return {file, kept.of(log_probs.keys())};
    } catch (const FileError&) {  // another one is written
    }
  }
  return {};
}

/// Provides the log-probabilities of one run.
class Provider {
 public:
  Provider(ReferenceLogProbs& log_probs, const ReferencePlace& place, train::Trainer& trainer)
      : log_probs_(log_probs),
        place_(place),
        trainer_(trainer),
        group_(trainer.strategy().processes()),
        is_resumed_(trainer.state().global_step > 0) {}

  void run() {
    auto values = at::zeros({std::ssize(log_probs_.keys()), 2}, at::kDouble);
    const Json found = comm::ask_main(
        group_, "look for the reference's log-probabilities", [&] { return Json(find(values)); },
        comm::Lasts::Long);
    if (!found.get<bool>()) {
      compute(values);
    } else {
      tell(fmt::format("the reference's log-probabilities of {} are those in {}",
                       plural(std::ssize(log_probs_.keys()), "pair"), found_.string()));
    }
    group_.broadcast(values, 0, "the reference's log-probabilities");
    log_probs_.set(values);
    comm::ask_main(
        group_, "keep the reference's log-probabilities",
        [&] {
          keep(values);
          return Json();
        },
        comm::Lasts::Long);
  }

 private:
  /// Fills `values` with kept ones. Returns false where a new run has to compute them.
  bool find(at::Tensor& values) {
    const auto found = (is_resumed_ ? of_resumed : of_new)(log_probs_, place_);
    if (!found.values.defined()) return false;
    values = found.values;
    found_ = found.file;
    return true;
  }

  void compute(at::Tensor& values) {
    const auto began = std::chrono::steady_clock::now();
    const auto all = std::ssize(log_probs_.keys());
    tell(fmt::format("computing the reference's log-probabilities of {}{}", plural(all, "pair"),
                     place_.open ? " with " + place_.model : ""));
    std::vector<std::string> notes;
    const auto other = place_.open ? place_.open(trainer_, notes) : nullptr;
    for (const auto& note : notes) tell(note);
    auto& reference = other ? *other : trainer_;
    std::unordered_map<uint64_t, std::pair<double, double>> known;
    report::LiveLine line(stdout);
    for (const auto& pairs : log_probs_.needed()) {
      const auto data = make_chat_dataset(pairs->all, pairs->rows, /*packed=*/true, place_.padding);
      const auto use = [&](int64_t row, std::span<const double> numbers) {
        known[pairs->keys[static_cast<size_t>(row)]] = {numbers[0], numbers[1]};
        if (place_.quiet || !line.due()) return;
        line.show(fmt::format("reference  {:.0f} %", 100.0 * static_cast<double>(known.size()) /
                                                         static_cast<double>(all)));
      };
      const auto of_batch = [](const nn::Bundle& out, const at::Tensor&) {
        return out.at("log_probs");
      };
      each_row(reference, *data, /*most=*/0, /*width=*/2, "pair", of_batch, use,
               nn::Mode::Evaluate);
    }
    line.wipe();
    if (group_.rank() != 0) return;
    auto* to = values.data_ptr<double>();
    for (const auto key : log_probs_.keys()) {
      const auto& [chosen, rejected] = known.at(key);
      *to++ = chosen;
      *to++ = rejected;
    }
    tell(fmt::format("computed them in {}{}", human_seconds(seconds_since(began)),
                     place_.output.empty()
                         ? ""
                         : "; they are kept in " + (place_.output / kReferenceFile).string()));
  }

  void keep(const at::Tensor& values) const {
    const auto file = place_.output / kReferenceFile;
    if (place_.output.empty() || found_ == file) return;
    KeptReference{log_probs_.keys(), values, place_.weights, place_.precision}.write(file);
  }

  void tell(const std::string& text) const {
    if (group_.rank() == 0 && !place_.quiet) report::show_progress(printable_lines(text) + "\n");
  }

  ReferenceLogProbs& log_probs_;
  const ReferencePlace& place_;
  train::Trainer& trainer_;
  const comm::Group& group_;
  bool is_resumed_;
  fs::path found_;  // on the main rank
};

}  // namespace

bool will_compute(const ReferenceLogProbs& log_probs, const ReferencePlace& place) {
  return place.resumed.empty() && !of_new(log_probs, place).values.defined();
}

void check_kept(const ReferenceLogProbs& log_probs, const ReferencePlace& place) {
  if (!place.resumed.empty()) of_resumed(log_probs, place);
}

void provide(ReferenceLogProbs& log_probs, const ReferencePlace& place, train::Trainer& trainer) {
  Provider(log_probs, place, trainer).run();
}

}  // namespace convoy::tasks
