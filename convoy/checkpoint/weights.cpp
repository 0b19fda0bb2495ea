#include "convoy/checkpoint/weights.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>

#include "convoy/base/error.h"
#include "convoy/base/json_value.h"
#include "convoy/checkpoint/dtypes.h"
#include "convoy/checkpoint/matching.h"
#include "convoy/checkpoint/sums.h"
#include "convoy/checkpoint/visitors.h"
#include "convoy/comm/agree.h"
#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/parallel/buffers/finite.h"
#include "convoy/parallel/tensor/cut.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

namespace {

using parallel::State;
using parallel::StateTensor;

/// Finds on rank 0 each tensor of the state that is to be read: its name in the files, dtype, shape
/// and checksum.
Json look_into(const fs::path& path, const State& state, const models::WeightLayout& layout) {
  const formats::SafetensorsFolder files(path);
  const Matching matching(files, state, layout);
  const auto sums = expected_sums(files);
  Json sources = Json::object();
  for (const auto& [name, source] : matching.sources()) {
    const auto& entry = files.entry(source);
    sources[name] = {{"name", source},
                     {"dtype", entry.dtype},
                     {"shape", entry.shape},
                     {"begin", matching.begin_of(name)}};
    const bool is_whole = !matching.is_part(name);
    if (is_whole && sums.contains(source)) sources[name]["sum"] = sums.at(source);
  }
  return {
      {"sources", sources}, {"drawn", matching.report.drawn}, {"skipped", matching.report.skipped}};
}

/// Part of a piece that fits the caches, so that it is copied, summed and checked in one pass.
struct Chunk {
  size_t tensor;
  parallel::StatePiece part;

  size_t begin() const { return static_cast<size_t>(part.begin); }
  /// Offset in the tensor where the chunk's last row ends.
  size_t end() const {
    return static_cast<size_t>(part.begin + (part.rows() - 1) * part.stride + part.length());
  }
};

std::vector<Chunk> chunks_of(const State& state, const Json& sources) {
  constexpr int64_t kElements = int64_t{1} << 18;
  std::vector<Chunk> out;
  for (size_t t = 0; t < state.size(); ++t) {
    if (!sources.contains(state[t].name)) continue;
    for (const auto& piece : state[t].pieces) {
      const int64_t count = piece.values.size(0);  // of elements, or rows
      const int64_t some = piece.stride == 0 ? kElements : at::divup(kElements, piece.stride);
      for (int64_t at = 0; at < count; at += some) {
        out.push_back({t, piece.part(at, std::min(some, count - at))});
      }
    }
  }
  return out;
}

/// Fills this rank's pieces from chunks, and sums them.
class Filling {
 public:
  explicit Filling(const State& state) : sums(state), state_(state) {}

  /// Copies a chunk whose elements `here` are contiguous, as in the file; they may already be in
  /// place.
  void take(const Chunk& chunk, const at::Tensor& here) {
    const auto& home = chunk.part.values;
    if (home.const_data_ptr() != here.const_data_ptr()) comm::upload_into(home, here);
    if (chunk.part.owned) sums.add(chunk.tensor, chunk.part, here);
    const auto& tensor = state_[chunk.tensor];
    // Buffers may hold infinities, as masks do.
    const bool same = here.scalar_type() == home.scalar_type();
    if (tensor.is_buffer || parallel::is_finite(same ? here : home)) return;
    if (not_finite.empty() || not_finite.back() != tensor.name) not_finite.push_back(tensor.name);
  }

  Sums sums;
  std::vector<std::string> not_finite;

 private:
  const State& state_;
};

/// Tensor of a file that a tensor of the state is read from.
struct Source {
  const formats::SafetensorsFile* file = nullptr;
  std::string name;
  at::ScalarType dtype = at::kFloat;
  size_t width = 0;  // bytes of an element
  size_t begin = 0;  // first element
};

/// Reads the elements of a chunk.
at::Tensor read_chunk(const Chunk& chunk, const Source& source) {
  // Gap between rows, in bytes, up to which reading the bytes in between costs less than one more
  // system call.
  constexpr size_t kGap = 4096;
  const auto& part = chunk.part;
  const auto width = source.width;
  const auto read = [&](size_t begin, size_t end, void* to) {
    source.file->read(source.name, (source.begin + begin) * width, (source.begin + end) * width,
                      to);
  };
  const auto between = static_cast<size_t>(part.stride - part.length());
  if (part.stride > 0 && between * width <= kGap) {
    auto all = at::empty({static_cast<int64_t>(chunk.end() - chunk.begin())}, source.dtype);
    read(chunk.begin(), chunk.end(), all.mutable_data_ptr());
    return all.as_strided(part.values.sizes(), {part.stride, 1}).contiguous();
  }
  const auto& home = part.values;
  const bool direct = part.stride == 0 && home.is_cpu() && home.scalar_type() == source.dtype;
  auto here = direct ? home : at::empty(home.sizes(), source.dtype);
  auto* to = static_cast<std::byte*>(here.mutable_data_ptr());
  parallel::each_row(part, [&](int64_t begin, int64_t at, int64_t length) {
    const auto first = static_cast<size_t>(begin);
    read(first, first + static_cast<size_t>(length), to + static_cast<size_t>(at) * width);
  });
  return here;
}

/// Reads chunks into their places, some of them ahead of their use.
void fill_from(const formats::SafetensorsFolder& files, const Json& sources, const State& state,
               Filling& filling) {
  constexpr size_t kAhead = 64;
  for (const Json& source : sources) {  // a rank may see other files of that name than rank 0
    const std::string name = source["name"];
    const bool same = files.tensors().contains(name) &&
                      files.entry(name).dtype == source["dtype"].get<std::string>() &&
                      Json(files.entry(name).shape) == source["shape"];
    if (!same) refuse(files.path(), "differs from what rank 0 finds under that name: ", {name});
  }
  std::vector<Source> from(state.size());
  for (size_t t = 0; t < state.size(); ++t) {
    if (!sources.contains(state[t].name)) continue;
    const std::string name = sources[state[t].name]["name"];
    const auto& dtype = files.entry(name).dtype;
    from[t] = {files.tensors().at(name), name, dtypes().at(dtype),
               formats::safetensors_dtype_bytes(dtype),
               value_from<size_t>(sources[state[t].name]["begin"])};
  }
  const auto chunks = chunks_of(state, sources);
  const auto ask_for = [&](const Chunk& chunk) {
    const auto& source = from[chunk.tensor];
    source.file->read_ahead(source.name, (source.begin + chunk.begin()) * source.width,
                            (source.begin + chunk.end()) * source.width);
  };
  for (size_t c = 0; c < std::min(kAhead, chunks.size()); ++c) ask_for(chunks[c]);
  for (size_t c = 0; c < chunks.size(); ++c) {
    if (c + kAhead < chunks.size()) ask_for(chunks[c + kAhead]);
    filling.take(chunks[c], read_chunk(chunks[c], from[chunks[c].tensor]));
  }
}

LoadReport read(const fs::path& path, const State& state, const comm::Group& group,
                const models::WeightLayout& layout) {
  const auto label = "read " + path.filename().string();
  const Json found = comm::ask_main(group, label, [&] { return look_into(path, state, layout); });
  const Json& sources = found["sources"];
  const auto sees = who_sees(formats::file_or_index(path), group);
  const bool all_see = std::all_of(sees.begin(), sees.end(), [](bool sees_it) { return sees_it; });
  Filling filling(state);
  at::NoGradGuard no_grad;
  std::unique_ptr<formats::SafetensorsFolder> files;
  comm::each_rank(
      group, label,
      [&] {
        if (all_see || group.rank() == 0) {
          files = std::make_unique<formats::SafetensorsFolder>(path);
        }
        if (all_see) fill_from(*files, sources, state, filling);
      },
      comm::Lasts::Long);
  for (size_t t = 0; t < state.size() && !all_see; ++t) {  // rank 0 reads for all
    if (!sources.contains(state[t].name)) continue;
    const Json& source = sources[state[t].name];
    const auto count = parallel::num_elements(state[t].shape);
    auto values = at::empty({count}, dtypes().at(source["dtype"].get<std::string>()));
    if (files) {
      const auto whole = mapped(*files, source["name"].get<std::string>()).view({-1});
      values.copy_(whole.narrow(0, value_from<int64_t>(source["begin"]), count));  // on the host
    }
    group.broadcast(values, 0, label);
    for (const auto& piece : state[t].pieces) {
      const Chunk chunk{t, piece};
      const auto span = values.view({-1}).slice(0, piece.begin, static_cast<int64_t>(chunk.end()));
      filling.take(chunk,
                   piece.stride == 0
                       ? span
                       : span.as_strided(piece.values.sizes(), {piece.stride, 1}).contiguous());
    }
  }
  comm::each_rank(group, label, [&] {
    if (filling.not_finite.empty()) return;
    refuse(formats::file_or_index(path), "holds numbers that are not finite: ", filling.not_finite);
  });
  std::vector<std::string> spoilt;
  const auto sums = filling.sums.together(group);
  for (size_t t = 0; t < state.size(); ++t) {
    if (!sources.contains(state[t].name)) continue;
    const Json& source = sources[state[t].name];
    if (source.contains("sum") && source["sum"] != sums[t]) spoilt.push_back(source["name"]);
  }
  if (!spoilt.empty()) {
    refuse(formats::file_or_index(path),
           "is not as it was written (try an earlier checkpoint, or remove manifest.json if "
           "somebody changed it on purpose): ",
           spoilt);
  }
  return {found["drawn"], found["skipped"]};
}

/// Index of the first tensor with a value that is not finite; the number of tensors where all are
/// finite. Tensors on a device are reduced there to two numbers for each piece, which are copied to
/// the host together.
size_t first_not_finite(const State& weights) {
  struct Extremes {
    std::vector<at::Tensor> numbers;  // of a piece the least and the greatest
    std::vector<size_t> tensors;
  };
  std::map<c10::DeviceIndex, Extremes> devices;
  size_t first = weights.size();
  for (size_t t = 0; t < first; ++t) {
    if (weights[t].is_buffer) continue;
    for (const auto& piece : weights[t].pieces) {
      const auto& values = piece.values;
      if (values.is_cpu()) {
        if (!parallel::is_finite(values)) first = t;
      } else if (values.numel() > 0) {
        auto& extremes = devices[values.device().index()];
        const auto [least, greatest] = at::aminmax(values);
        extremes.numbers.push_back(least), extremes.numbers.push_back(greatest);
        extremes.tensors.push_back(t);
      }
    }
  }
  for (const auto& [device, extremes] : devices) {
    const auto numbers = comm::download(at::stack(extremes.numbers));
    const auto finite = numbers.isfinite().view({-1, 2}).all(/*dim=*/1);
    for (size_t p = 0; p < extremes.tensors.size(); ++p) {
      if (!finite.const_data_ptr<bool>()[p]) first = std::min(first, extremes.tensors[p]);
    }
  }
  return first;
}

}  // namespace

void save_weights(const fs::path& folder, const State& weights, const comm::Group& group,
                  int64_t max_shard_bytes, const ConnectWriters& connect) {
  const auto shards = shards_of(weights, max_shard_bytes);
  Save save(folder, {{shards.files, weights}}, group, connect);
  WritingThread thread(save, [&save] {
    save.write();
    save.complete();
  });
  thread.wait_for_all(group);
  save.finish(nullptr);
  finish_weights(folder, shards, group);
}

LoadReport load_weights(const fs::path& path, const State& weights, const comm::Group& group,
                        const models::WeightLayout& layout) {
  return read(path, weights, group, layout);
}

void load_optimizer(const fs::path& path, const State& moments, const comm::Group& group) {
  read(path, moments, group, {});
}

void check_finite(const State& weights, const comm::Group& group, int64_t step) {
  comm::each_rank(
      group, "look at weights",
      [&] {
        const auto first = first_not_finite(weights);
        if (first == weights.size()) return;
        fail<NumericError>("train",
                           "the weights after step {} are not finite on rank {} ({}), so they are "
                           "not saved; the last good checkpoint stays; try a lower learning_rate",
                           step, group.rank(), weights[first].name);
      },
      comm::Lasts::Long);  // what is offloaded is read
}

}  // namespace convoy::checkpoint
