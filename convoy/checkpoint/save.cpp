#include "convoy/checkpoint/save.h"

#include <sys/resource.h>
#include <unistd.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <set>

#include "convoy/base/error.h"
#include "convoy/checkpoint/adapter.h"
#include "convoy/checkpoint/dtypes.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/host_parts.h"
#include "convoy/checkpoint/visitors.h"
#include "convoy/comm/agree.h"
#include "convoy/comm/pinned.h"
#include "convoy/comm/to_host.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

using parallel::State;

namespace {

State all_of(std::vector<FilesOfState>& states) {
  State out;
  for (auto& [files, state] : states)
    std::move(state.begin(), state.end(), std::back_inserter(out));
  return out;
}

void copy(State& state, PooledBytes& copies) {
  std::vector<std::pair<at::Tensor, at::Tensor>> downloads;
  for (auto& tensor : state) {
    for (auto& piece : tensor.pieces) {
      if (piece.offloaded || piece.constant) continue;
      if (piece.changing) {
        piece.held = piece.changing->hold();
        continue;
      }
      const auto from = piece.values;
      copies.add(static_cast<int64_t>(from.nbytes()));  // before they count as a step's
      piece.values = at::empty(from.sizes(), from.options().device(at::kCPU));
      if (from.is_cpu()) {
        piece.values.copy_(from);  // on the host
      } else {
        downloads.emplace_back(from.contiguous(), piece.values);
      }
    }
  }
  comm::download_all(downloads);
}

/// Whether state is offloaded. Memory has no room for a copy of it, so it is written before
/// training changes it.
bool is_offloaded(const State& state) {
  return std::any_of(state.begin(), state.end(), [](const auto& tensor) {
    return std::any_of(tensor.pieces.begin(), tensor.pieces.end(),
                       [](const auto& piece) { return piece.offloaded; });
  });
}

/// Lowers this thread's priority: it gets a thirtieth of a busy core, and all of one that is idle.
/// A failure is ignored.
void yield_to_training() {
  constexpr int kNice = 15;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
}

}  // namespace

std::vector<formats::TensorInfo> infos_of(const State& state) {
  std::vector<formats::TensorInfo> out;
  for (const auto& tensor : state) {
    out.push_back({tensor.name, name_of(tensor.dtype, tensor.name), tensor.shape});
  }
  return out;
}

Save::Save(const fs::path& folder, std::vector<FilesOfState> states, const comm::Group& group,
           const ConnectWriters& connect, bool copies)
    : state_(all_of(states)), home_(state_.size()), group_(group), sums_(state_) {
  size_t first = 0;
  for (const auto& [files, state] : states) {
    std::map<std::string, size_t> index;
    for (size_t t = 0; t < state.size(); ++t) index[state_[first + t].name] = first + t;
    first += state.size();
    for (const auto& [name, tensors] : files) {
      const auto& plan = plans_.emplace_back(name, tensors).second;
      for (const auto& [tensor, begin] : plan.begin) {
        home_[index.at(tensor)] = {plans_.size() - 1, begin};
      }
    }
  }
  const auto places = comm::ask_main(
      group_, "make files",
      [&] {
        Json out = Json::array();
        for (const auto& [name, plan] : plans_) {
          finals_.push_back(std::make_unique<AtomicFile>(folder / name));
          formats::SafetensorsPieces::create(finals_.back()->temporary(), plan);
          out.push_back(finals_.back()->temporary().string());
        }
        return out;
      },
      comm::Lasts::Long);
  const auto sees = who_sees(places.at(0).get<std::string>(), group_);
  comm::each_rank(group_, "open files", [&] {
    // Rank 0 made them: where it does not find them they have vanished.
    if (group_.rank() != 0 && !sees[static_cast<size_t>(group_.rank())]) return;
    for (const auto& place : places) {
      open_.push_back(std::make_unique<formats::SafetensorsPieces>(place.get<std::string>()));
    }
  });
  std::vector<int> writers{0};
  for (int rank = 1; rank < group_.size(); ++rank) {
    if (!sees[static_cast<size_t>(rank)]) writers.push_back(rank);
  }
  keep_own(state_, writers.size() == 1);
  if (copies) copy(state_, copies_);
  if (writers.size() == 1) {
    buffering_ = std::make_unique<CollectiveBuffering>(state_, group_);
    return;
  }
  if (!connect) {
    bring_pieces(state_, sees, group_,
                 [this](size_t tensor, const parallel::StatePiece& piece) { put(tensor, piece); });
  } else if (group_.rank() == 0 || open_.empty()) {
    writers_ = connect(writers);
  }
}

/// Writes a piece in parts that stay in the caches between checksum and write().
void Save::put(size_t tensor, const parallel::StatePiece& piece) {
  constexpr int64_t kBytes = int64_t{1} << 20;
  const auto& [file, place] = home_[tensor];
  for (const auto& part : piece.parts(kBytes)) {
    check_stop();
    const auto values = part.on_host();
    sums_.add(tensor, part, values);
    const auto width = values.element_size();
    const auto bytes = [width](int64_t elements) { return static_cast<size_t>(elements) * width; };
    open_[file]->write_rows(place + bytes(part.begin), values.const_data_ptr(),
                            bytes(part.length()), static_cast<size_t>(part.rows()),
                            bytes(part.stride));
  }
}

void Save::check_stop() const {
  if (stop_) fail<Error>("checkpoint", "the save was given up");
}

void Save::stop() noexcept {
  stop_ = true;
  try {
    writers_.abort("the save was given up");
  } catch (const std::exception&) {
    // A failed abort is no error: the thread ends when its wait times out.
  }
}

void Save::note_error() noexcept {
  if (!error_) error_ = std::current_exception();
}

void Save::write(const std::function<void()>& first) noexcept try {
  if (first) first();
  if (open_.empty()) return;
  write_pieces();
  if (!buffering_) return;
  buffering_->run(
      [this](size_t tensor, int64_t begin, const at::Tensor& values) {
        put(tensor, {.begin = begin, .values = values});
      },
      [this] { check_stop(); });
} catch (...) {
  if (buffering_) buffering_->abandon();
  note_error();
}

void Save::write_pieces() {
  // Ranks that write to one file take turns in the system: they begin with different ones.
  each_on_host(
      state_, /*backward=*/group_.rank() % 2 != 0,
      [this](size_t tensor, const parallel::StatePiece& piece) { put(tensor, piece); },
      [this] { check_stop(); });
}

void Save::complete() noexcept try {
  if (writers_.size() > 1) {
    std::vector<bool> sees(static_cast<size_t>(writers_.size()), false);
    sees[0] = true;
    // Pieces are received even after a write error, as the ranks that send them wait for that.
    const auto take = [this](size_t tensor, const parallel::StatePiece& piece) {
      check_stop();
      if (error_) return;
      try {
        put(tensor, piece);
      } catch (...) {
        note_error();
      }
    };
    bring_pieces(state_, sees, writers_, take);
  }
  if (error_) return;
  for (auto& file : open_) file->sync([this] { check_stop(); });
} catch (...) {
  note_error();
}

void Save::finish(Manifest* manifest) {
  comm::each_rank(group_, "write files", [&] {
    if (error_) std::rethrow_exception(error_);
  });
  const auto sums = sums_.together(group_);
  comm::ask_main(
      group_, "finish files",
      [&] {
        for (auto& file : finals_) file->commit();
        if (manifest == nullptr) return Json();
        for (const auto& [name, plan] : plans_) manifest->set_bytes(name, plan.bytes);
        for (size_t t = 0; t < state_.size(); ++t) {
          manifest->set(plans_[home_[t].file].first, state_[t].name, sums[t]);
        }
        return Json();
      },
      comm::Lasts::Long);
}

WritingThread::WritingThread(Save& save, const std::function<void()>& work) : save_(save) {
  std::packaged_task<void()> task(work);
  done_ = task.get_future();
  thread_ = std::thread(std::move(task));
}

WritingThread::~WritingThread() {
  if (!thread_.joinable()) return;
  save_.stop();
  thread_.join();
}

void WritingThread::wait_for_all(const comm::Group& group) {
  if (!thread_.joinable()) return;
  comm::until_all(group, "wait for disks", [&](auto patience) { return is_done(patience); });
  thread_.join();
}

formats::SafetensorsShards shards_of(const State& weights, int64_t max_shard_bytes) {
  const std::string file = weights_file(weights);
  const bool one = file == formats::kAdapterFile;  // PEFT reads no shards
  return {infos_of(weights), one ? SIZE_MAX : static_cast<size_t>(max_shard_bytes), file};
}

BackgroundSave::BackgroundSave(CheckpointTensors of, const comm::Group& group)
    : folder_(of.folder),
      weight_files_(shards_of(of.weights, of.max_shard_bytes)),
      moment_files_(infos_of(of.moments), static_cast<size_t>(of.max_shard_bytes), kOptimizer),
      group_(group),
      save_(folder_, {{weight_files_.files, of.weights}, {moment_files_.files, of.moments}}, group,
            of.connect, /*copies=*/of.beside),
      thread_(save_, [this, beside = of.beside, first = of.first] {
        if (beside) yield_to_training();
        save_.write(first);
        save_.complete();
      }) {
  auto offloaded = at::full({1}, is_offloaded(of.weights) || is_offloaded(of.moments), at::kLong);
  group.all_reduce(offloaded, comm::ReduceOp::Max, "look for offloaded state");
  if (comm::item<int64_t>(offloaded) != 0) thread_.wait_for_all(group_);
}

Manifest BackgroundSave::finish() {
  thread_.wait_for_all(group_);
  Manifest out;
  save_.finish(&out);
  comm::ask_main(group_, "finish moments", [&] {
    if (!moment_files_.index.empty()) {
      write_file(folder_ / moment_files_.index_name, moment_files_.index);
    }
    return Json();
  });
  finish_weights(folder_, weight_files_, group_);
  return out;
}

void finish_weights(const fs::path& folder, const formats::SafetensorsShards& shards,
                    const comm::Group& group) {
  comm::ask_main(
      group, "finish weights",
      [&] {
        std::set<std::string> written;
        for (const auto& [name, tensors] : shards.files) written.insert(name);
        if (!shards.index.empty()) {
          write_file(folder / shards.index_name, shards.index);
          written.insert(shards.index_name);
        }
        formats::remove_weights(folder, written);
        return Json();
      },
      comm::Lasts::Long);
}

}  // namespace convoy::checkpoint
