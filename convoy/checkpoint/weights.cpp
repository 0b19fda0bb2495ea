#include "convoy/checkpoint/weights.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/dtypes.h"
#include "convoy/checkpoint/matching.h"
#include "convoy/checkpoint/visitors.h"
#include "convoy/comm/agree.h"
#include "convoy/formats/safetensors_folder.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

namespace {

using parallel::State;
using parallel::StateTensor;

/// The largest magnitude says it without an overflow of its own.
bool is_finite(const at::Tensor& values) {
  return values.numel() == 0 ||
         std::isfinite(at::linalg_vector_norm(values, HUGE_VAL).item<double>());
}

/// Checksums of some tensors, of which each rank adds those of its pieces.
class Sums {
 public:
  explicit Sums(const State& state) : state_(state), sums_(at::zeros(size(state), at::kLong)) {}

  void add(size_t tensor, const at::Tensor& values, int64_t begin) {
    sums_[static_cast<int64_t>(tensor)] +=
        static_cast<int64_t>(checksum(values.const_data_ptr(), static_cast<size_t>(values.numel()),
                                      values.element_size(), static_cast<uint64_t>(begin)));
  }

  /// Of all ranks, by name.
  std::map<std::string, uint64_t> together(const comm::Group& group) {
    group.all_reduce(sums_, comm::ReduceOp::Sum, "add up checksums");
    std::map<std::string, uint64_t> out;
    for (size_t t = 0; t < state_.size(); ++t) {
      out[state_[t].name] = static_cast<uint64_t>(sums_[static_cast<int64_t>(t)].item<int64_t>());
    }
    return out;
  }

 private:
  static int64_t size(const State& state) { return static_cast<int64_t>(state.size()); }

  const State& state_;
  at::Tensor sums_;
};

/// The manifest's checksum of each tensor that `files` hold.
std::map<std::string, uint64_t> expected_sums(const formats::SafetensorsFolder& files) {
  std::map<std::string, uint64_t> out;
  const auto manifest =
      Manifest::read(files.path().has_extension() ? files.path().parent_path() : files.path());
  for (const auto& [name, file] : files.tensors()) {
    const auto known = manifest.sums().find(file->path().filename().string());
    if (known == manifest.sums().end()) continue;
    const auto sum = known->second.find(name);
    if (sum != known->second.end()) out[name] = sum->second;
  }
  return out;
}

/// What rank 0 finds in the files: for each tensor of the state that is to be read its name there,
/// dtype, shape and checksum.
Json look_into(const fs::path& path, const State& state, const models::WeightLayout& layout) {
  const formats::SafetensorsFolder files(path);
  const Matching matching(files, state, layout);
  const auto sums = expected_sums(files);
  Json sources = Json::object();
  for (const auto& [name, source] : matching.sources()) {
    const auto& entry = files.entry(source);
    sources[name] = {{"name", source}, {"dtype", entry.dtype}, {"shape", entry.shape}};
    if (sums.contains(source)) sources[name]["sum"] = sums.at(source);
  }
  return {
      {"sources", sources}, {"drawn", matching.report.drawn}, {"skipped", matching.report.skipped}};
}

/// Copies this rank's pieces of a tensor.
void take(const StateTensor& tensor, size_t number, const at::Tensor& values, Sums& sums,
          const comm::Group& group, std::vector<std::string>& not_finite) {
  bool finite = true;
  for (const auto& piece : tensor.pieces) {
    const auto here = values.narrow(0, piece.begin, piece.values.numel());
    at::Tensor(piece.values).copy_(here);
    const bool again = tensor.everywhere && (group.rank() > 0 || &piece != &tensor.pieces.front());
    if (!again) sums.add(number, here, piece.begin);
    // Buffers may hold infinities, as masks do.
    finite = finite && (tensor.is_buffer || is_finite(piece.values));
  }
  if (!finite) not_finite.push_back(tensor.name);
}

LoadReport read(const fs::path& path, const State& state, const comm::Group& group,
                const models::WeightLayout& layout) {
  const auto label = "read " + path.filename().string();
  const Json found = comm::ask_main(group, label, [&] { return look_into(path, state, layout); });
  const Json& sources = found["sources"];
  const auto sees = who_sees(path, group);
  const bool all_see = std::all_of(sees.begin(), sees.end(), [](bool sees_it) { return sees_it; });
  Sums sums(state);
  std::vector<std::string> not_finite;
  at::NoGradGuard no_grad;
  std::unique_ptr<formats::SafetensorsFolder> files;
  comm::each_rank(group, label, [&] {
    if (all_see || group.rank() == 0) files = std::make_unique<formats::SafetensorsFolder>(path);
    if (!all_see) return;
    for (size_t t = 0; t < state.size(); ++t) {
      if (!sources.contains(state[t].name)) continue;
      const auto name = sources[state[t].name]["name"].get<std::string>();
      take(state[t], t, mapped(*files, name).view({-1}), sums, group, not_finite);
    }
  });
  for (size_t t = 0; t < state.size() && !all_see; ++t) {  // rank 0 reads for all
    if (!sources.contains(state[t].name)) continue;
    const Json& source = sources[state[t].name];
    auto values = at::empty(source["shape"].get<std::vector<int64_t>>(),
                            dtypes().at(source["dtype"].get<std::string>()));
    if (files) values.copy_(mapped(*files, source["name"].get<std::string>()));
    group.broadcast(values, 0, label);
    take(state[t], t, values.view({-1}), sums, group, not_finite);
  }
  comm::each_rank(group, label, [&] {
    if (!not_finite.empty()) refuse(path, "holds numbers that are not finite: ", not_finite);
  });
  std::vector<std::string> spoilt;
  for (const auto& [name, sum] : sums.together(group)) {
    if (!sources.contains(name)) continue;
    const Json& source = sources[name];
    if (source.contains("sum") && source["sum"] != sum) spoilt.push_back(source["name"]);
  }
  if (!spoilt.empty()) {
    refuse(path,
           "is not as it was written (try an earlier checkpoint, or remove manifest.json if "
           "somebody changed it on purpose): ",
           spoilt);
  }
  return {found["drawn"], found["skipped"]};
}

/// Writes files of a folder, each process what it holds of them, and enters them into the manifest.
void write(const fs::path& folder,
           const std::map<std::string, std::vector<formats::TensorInfo>>& files, const State& state,
           const comm::Group& group) {
  std::map<std::string, formats::SafetensorsPlan> plans;
  for (const auto& [name, tensors] : files) plans.emplace(name, tensors);
  std::map<std::string, size_t> index;
  for (size_t t = 0; t < state.size(); ++t) index[state[t].name] = t;

  std::vector<std::unique_ptr<AtomicFile>> finals;  // rank 0's
  const auto places = comm::ask_main(group, "make files", [&] {
    Json out = Json::array();
    for (const auto& [name, plan] : plans) {
      finals.push_back(std::make_unique<AtomicFile>(folder / name));
      formats::SafetensorsPieces::create(finals.back()->temporary(), plan);
      out.push_back(finals.back()->temporary().string());
    }
    return out;
  });
  Sums sums(state);
  // Tensor by tensor: where it goes, and to which of the files.
  std::vector<std::pair<size_t, size_t>> home(state.size());  // file, place
  size_t number = 0;
  for (const auto& [name, plan] : plans) {
    for (const auto& [tensor, begin] : plan.begin) home[index.at(tensor)] = {number, begin};
    ++number;
  }
  std::vector<std::unique_ptr<formats::SafetensorsPieces>> open;
  auto put = [&](size_t t, const parallel::StatePiece& piece) {
    const auto host = piece.values.to(at::kCPU);
    const auto& [file, begin] = home[t];
    open[file]->write(begin + static_cast<size_t>(piece.begin) * host.element_size(),
                      host.const_data_ptr(), host.nbytes());
    sums.add(t, host, piece.begin);
  };
  const auto sees = who_sees(places.at(0).get<std::string>(), group);
  comm::each_rank(group, "write files", [&] {
    if (!sees[static_cast<size_t>(group.rank())]) return;
    for (const auto& place : places) {
      open.push_back(std::make_unique<formats::SafetensorsPieces>(place.get<std::string>()));
    }
    for (size_t t = 0; t < state.size(); ++t) {
      for (const auto& piece : state[t].pieces) put(t, piece);
    }
  });
  bring_pieces(state, sees, group, put);
  comm::each_rank(group, "write files", [&] {
    for (auto& file : open) file->sync();
  });
  const auto all = sums.together(group);
  comm::ask_main(group, "finish files", [&] {
    for (auto& file : finals) file->commit();
    for (const auto& [name, plan] : plans) {
      if (manifest == nullptr) break;
      manifest->set_bytes(name, plan.bytes);
      for (const auto& [tensor, begin] : plan.begin) manifest->set(name, tensor, all.at(tensor));
    }
    return Json();
  });
}

std::vector<formats::TensorInfo> infos_of(const State& state) {
  std::vector<formats::TensorInfo> out;
  for (const auto& tensor : state) {
    out.push_back({tensor.name, name_of(tensor.dtype, tensor.name), tensor.shape});
  }
  return out;
}

}  // namespace

void save_weights(const fs::path& folder, const State& weights, const comm::Group& group,
                  int64_t max_shard_bytes, Manifest* manifest) {
  const formats::SafetensorsShards shards(infos_of(weights), static_cast<size_t>(max_shard_bytes));
  write(folder, shards.files, weights, group, manifest);
  comm::ask_main(group, "finish weights", [&] {
    std::set<std::string> written;
    for (const auto& [name, tensors] : shards.files) written.insert(name);
    if (!shards.index.empty()) {
      write_file(folder / formats::kWeightsIndex, shards.index);
      written.insert(formats::kWeightsIndex);
    }
    formats::remove_weights(folder, written);
    return Json();
  });
}

LoadReport load_weights(const fs::path& path, const State& weights, const comm::Group& group,
                        const models::WeightLayout& layout) {
  return read(path, weights, group, layout);
}

void save_optimizer(const fs::path& path, const State& moments, const comm::Group& group,
                    Manifest* manifest) {
  write(path.parent_path(), {{path.filename().string(), infos_of(moments)}}, moments, group,
        manifest);
}

void load_optimizer(const fs::path& path, const State& moments, const comm::Group& group) {
  read(path, moments, group, {});
}

void check_finite(const State& weights, const comm::Group& group, int64_t step) {
  comm::each_rank(group, "look at weights", [&] {
    for (const auto& tensor : weights) {
      for (const auto& piece : tensor.pieces) {
        if (tensor.is_buffer || is_finite(piece.values)) continue;
        fail<NumericError>("train",
                           "the weights after step {} are not finite on rank {} ({}), so they are "
                           "not saved; the last good checkpoint stays; try a lower learning_rate",
                           step, group.rank(), tensor.name);
      }
    }
  });
}

}  // namespace convoy::checkpoint
