#include "convoy/shm/channel.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/shm/copy.h"
#include "convoy/shm/cores.h"

namespace convoy::shm {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kAlign = 64;
/// Largest size in bytes at which each of more than two ranks reads the data of all others: half as
/// many phases, but more bytes.
constexpr size_t kSmall = 8 << 10;

enum Kind : uint32_t { AllReduce = 1, ReduceScatter, AllGather, Broadcast, AllToAll, Barrier };

const char* name_of_kind(uint32_t kind) {
  constexpr const char* kNames[] = {"nothing",   "all_reduce", "reduce_scatter", "all_gather",
                                    "broadcast", "all_to_all", "barrier"};
  return kind < std::size(kNames) ? kNames[kind] : "an unknown operation";
}

std::string to_text(const Announcement& a) {
  if (a.kind == Barrier) return fmt::format("barrier '{}'", a.label.data());
  return fmt::format("{} '{}' of {} {}{}", name_of_kind(a.kind), a.label.data(), a.count,
                     name_of(static_cast<Dtype>(a.dtype)),
                     a.kind == Broadcast ? fmt::format(" from rank {}", a.op) : "");
}

/// First byte of part `index` of `count` equal parts of `bytes`, at multiples of 64 bytes.
size_t part_begin(size_t bytes, int count, int index) {
  if (index == count) return bytes;
  const size_t lines = (bytes + kAlign - 1) / kAlign;
  return std::min(bytes, lines * static_cast<size_t>(index) / static_cast<size_t>(count) * kAlign);
}

/// Returns the function that writes a result of `bytes`.
auto writer(size_t bytes) {
  return bytes >= kStreamingBytes ? copy_streaming : copy;
}

/// Number of spins before going to sleep: about 40 us. Spinning pays only while each rank has a
/// core of its own; else the one that is waited for may need this core.
constexpr int kSpins = 2000;
constexpr int kYields = 100;
/// Time between two moves to another core.
constexpr std::chrono::milliseconds kSettle{5};

}  // namespace

std::string describe(const Segment& segment, int rank) {
  const auto activity = to_text(read_activity(segment.area(rank).activity.data()));
  const int process = segment.area(rank).process;
  std::string text = fmt::format("rank {}", segment.name(rank));
  if (process > 0) text += fmt::format(" (process {})", process);
  if (!activity.empty()) text += fmt::format(", in `{}`", activity);
  return text;
}

Channel::Channel(std::shared_ptr<Segment> segment, int rank, std::chrono::milliseconds timeout)
    : segment_(std::move(segment)),
      rank_(rank),
      size_(segment_->size()),
      timeout_(timeout),
      slot_bytes_(segment_->slot_bytes()),
      has_core_(have_cores(segment_->ranks_on_host())) {}

void Channel::begin(uint32_t kind, Dtype dtype, uint32_t op, size_t count,
                    const std::string& label) {
  call_ = {posted_ + 1, kind, static_cast<uint32_t>(dtype), op, count, {}};
  label.copy(call_.label.data(), call_.label.size() - 1);
  if (segment_->aborted()) throw segment_->abort_error(label);
  segment_->area(rank_).announcements[posted_ % kSlots] = call_;
}

void Channel::post() {
  segment_->area(rank_).core.store(current_core(), std::memory_order_relaxed);
  segment_->area(rank_).posted.advance_to(++posted_);
}

uint32_t Channel::collect() {
  const uint32_t phase = collected_;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    if (!segment_->area(peer).posted.spin(phase + 1, 1)) wait_for(peer, phase + 1);
    if (phase + 1 == call_.phase) compare_announcement(peer, phase);
  }
  ++collected_;
  return phase;
}

void Channel::wait_for(int peer, uint32_t phase) {
  Counter& counter = segment_->area(peer).posted;
  if (has_core_ ? counter.spin(phase, kSpins) : counter.yield(phase, kYields)) return;
  make_room(peer);
  const auto start = Clock::now();
  while (!counter.reached(phase)) {
    if (segment_->aborted()) throw segment_->abort_error(label());
    // Asked before looking again: what a rank posted before it left still counts.
    const bool alive = segment_->is_alive(peer);
    if (counter.reached(phase)) return;
    if (!alive) {
      give_up(fmt::format("'{}' did not finish: {} has ended", label(), describe(*segment_, peer)),
              {segment_->name(peer)});
    }
    if (Clock::now() - start > timeout_) {
      std::vector<int> missing;
      std::string who;
      for (int other = 0; other < size_; ++other) {
        if (other == rank_ || segment_->area(other).posted.reached(phase)) continue;
        missing.push_back(segment_->name(other));
        who += (who.empty() ? "" : " and ") + describe(*segment_, other);
      }
      give_up(fmt::format("rank {} waited {} s in '{}' for {}", segment_->name(rank_),
                          static_cast<double>(timeout_.count()) / 1000, label(), who),
              missing);
    }
    counter.sleep(phase, std::min(kLook, timeout_));
  }
}

void Channel::make_room(int peer) {
  if (!has_core_ || Clock::now() - made_room_ < kSettle) return;
  const int core = segment_->area(peer).core.load(std::memory_order_relaxed);
  if (core != current_core()) return;
  made_room_ = Clock::now();
  leave_core(core);
}

void Channel::compare_announcement(int peer, uint32_t phase) {
  const Announcement& theirs = segment_->area(peer).announcements[phase % kSlots];
  if (std::memcmp(&theirs, &call_, sizeof call_) == 0) return;
  const auto reason =
      fmt::format("the ranks call different collectives: rank {} calls {}, rank {} {}",
                  segment_->name(rank_), to_text(call_), segment_->name(peer),
                  theirs.phase == phase + 1 ? "calls " + to_text(theirs) : "is inside another one");
  give_up(reason, {});
}

void Channel::give_up(const std::string& reason, const std::vector<int>& missing) {
  segment_->abort(reason, missing);
  throw CommunicationError(fmt::format("[comm] {}", reason), missing);
}

void Channel::rounds(size_t count, const std::function<void(size_t)>& put,
                     const std::function<void(size_t, uint32_t)>& take) {
  count = std::max<size_t>(count, 1);  // a collective of nothing still meets
  put(0);
  post();
  for (size_t i = 0; i < count; ++i) {
    if (i + 1 < count) {
      put(i + 1);
      post();
    }
    take(i, collect());
  }
  end_streaming();
}

void Channel::all_reduce(void* data, size_t count, Dtype dtype, Reduction op,
                         const std::string& label) {
  begin(AllReduce, dtype, static_cast<uint32_t>(op), count, label);
  const size_t bytes = count * size_of(dtype);
  if (size_ == 2 || bytes <= kSmall) {
    all_reduce_direct(static_cast<char*>(data), bytes, dtype, op);
  } else {
    all_reduce_in_parts(static_cast<char*>(data), bytes, dtype, op);
  }
}

void Channel::all_reduce_direct(char* data, size_t bytes, Dtype dtype, Reduction op) {
  std::vector<const void*> inputs(static_cast<size_t>(size_));
  const auto length = [&](size_t i) { return std::min(slot_bytes_, bytes - i * slot_bytes_); };
  rounds((bytes + slot_bytes_ - 1) / slot_bytes_,
         [&](size_t i) { writer_.write(my_slot(), data + i * slot_bytes_, length(i)); },
         [&](size_t i, uint32_t phase) {
           char* mine = data + i * slot_bytes_;
           for (int r = 0; r < size_; ++r) {
             inputs[static_cast<size_t>(r)] = r == rank_ ? mine : segment_->slot(r, phase);
           }
           reduce(dtype, op, mine, inputs, length(i) / size_of(dtype));
         });
}

void Channel::all_reduce_in_parts(char* data, size_t bytes, Dtype dtype, Reduction op) {
  const size_t count = (bytes + slot_bytes_ - 1) / slot_bytes_;
  const auto length = [&](size_t i) { return std::min(slot_bytes_, bytes - i * slot_bytes_); };
  const auto begin_of = [&](size_t i, int r) { return part_begin(length(i), size_, r); };
  std::vector<const void*> inputs(static_cast<size_t>(size_));
  const auto contribute = [&](size_t i) {
    const char* mine = data + i * slot_bytes_;
    writer_.write(my_slot(), mine, begin_of(i, rank_));
    const size_t after = begin_of(i, rank_ + 1);
    writer_.write(my_slot() + after, mine + after, length(i) - after);
    post();
  };
  const auto add_own_part = [&](size_t i) {
    const uint32_t phase = collect();
    const size_t begin = begin_of(i, rank_);
    char* mine = data + i * slot_bytes_ + begin;
    for (int r = 0; r < size_; ++r) {
      inputs[static_cast<size_t>(r)] = r == rank_ ? mine : segment_->slot(r, phase) + begin;
    }
    reduce(dtype, op, mine, inputs, (begin_of(i, rank_ + 1) - begin) / size_of(dtype));
  };
  const auto share_own_part = [&](size_t i) {
    const size_t begin = begin_of(i, rank_);
    writer_.write(my_slot() + begin, data + i * slot_bytes_ + begin,
                  begin_of(i, rank_ + 1) - begin);
    post();
  };
  const auto take_parts = [&](size_t i) {
    const uint32_t phase = collect();
    for (int step = 1; step < size_; ++step) {
      const int r = (rank_ + step) % size_;
      const size_t begin = begin_of(i, r);
      copy(data + i * slot_bytes_ + begin, segment_->slot(r, phase) + begin,
           begin_of(i, r + 1) - begin);
    }
  };
  // Piece i + 1 is contributed before piece i is shared: its readers never wait for its writers.
  contribute(0);
  if (count > 1) contribute(1);
  add_own_part(0);
  share_own_part(0);
  for (size_t i = 1; i < count; ++i) {
    add_own_part(i);
    if (i + 1 < count) contribute(i + 1);
    take_parts(i - 1);
    share_own_part(i);
  }
  take_parts(count - 1);
}

void Channel::reduce_scatter(void* out, const void* in, std::span<const size_t> counts, Dtype dtype,
                             Reduction op, const std::string& label, bool adds) {
  const size_t element = size_of(dtype);
  begin(ReduceScatter, dtype, static_cast<uint32_t>(op),
        std::accumulate(counts.begin(), counts.end(), size_t{0}), label);
  // A slot holds a share for each other rank.
  const size_t others = std::max<size_t>(1, counts.size() - 1);
  const size_t share = slot_bytes_ / others / kAlign * kAlign / element;
  const auto here = [&](size_t i, size_t r) {
    return std::min(share, counts[r] - std::min(counts[r], i * share));
  };
  const auto place_of = [&](size_t r, size_t writer) {
    return (r < writer ? r : r - 1) * share * element;
  };
  std::vector<size_t> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), size_t{0});
  const auto* from = static_cast<const char*>(in);
  const auto own = static_cast<size_t>(rank_);
  const size_t before = adds ? 1 : 0;
  std::vector<const void*> inputs(before + counts.size());
  // A large sum that lies elsewhere is written past the caches, from a piece that stays in them.
  const bool streams =
      !adds && out != from + offsets[own] * element && call_.count * element >= kStreamingBytes;
  std::vector<char> piece(streams ? share * element : 0);
  rounds((*std::max_element(counts.begin(), counts.end()) + share - 1) / share,
         [&](size_t i) {
           for (size_t r = 0; r < counts.size(); ++r) {
             if (r == own) continue;
             writer_.write(my_slot() + place_of(r, own), from + (offsets[r] + i * share) * element,
                           here(i, r) * element);
           }
         },
         [&](size_t i, uint32_t phase) {
           if (here(i, own) == 0) return;
           auto* target = static_cast<char*>(out) + i * share * element;
           if (adds) inputs[0] = target;
           for (size_t r = 0; r < counts.size(); ++r) {
             inputs[before + r] =
                 r == own ? from + (offsets[own] + i * share) * element
                          : segment_->slot(static_cast<int>(r), phase) + place_of(own, r);
           }
           if (!streams) return reduce(dtype, op, target, inputs, here(i, own));
           reduce(dtype, op, piece.data(), inputs, here(i, own));
           copy_streaming(target, piece.data(), here(i, own) * element);
         });
}

void Channel::all_gather(void* out, const void* in, std::span<const size_t> counts, Dtype dtype,
                         const std::string& label) {
  begin(AllGather, dtype, 0, std::accumulate(counts.begin(), counts.end(), size_t{0}), label);
  const size_t element = size_of(dtype);
  std::vector<size_t> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), size_t{0});
  auto* to = static_cast<char*>(out);
  const auto own = static_cast<size_t>(rank_);
  const auto length = [&](size_t i, size_t r) {
    const size_t bytes = counts[r] * element;
    return std::min(slot_bytes_, bytes - std::min(bytes, i * slot_bytes_));
  };
  const size_t most = *std::max_element(counts.begin(), counts.end()) * element;
  const auto write = writer(call_.count * element);
  rounds((most + slot_bytes_ - 1) / slot_bytes_,
         [&](size_t i) {
           const char* piece = static_cast<const char*>(in) + i * slot_bytes_;
           writer_.write(my_slot(), piece, length(i, own));
           write(to + offsets[own] * element + i * slot_bytes_, piece, length(i, own));
         },
         [&](size_t i, uint32_t phase) {
           for (int step = 1; step < size_; ++step) {
             const int r = (rank_ + step) % size_;
             const auto index = static_cast<size_t>(r);
             write(to + offsets[index] * element + i * slot_bytes_, segment_->slot(r, phase),
                   length(i, index));
           }
         });
}

void Channel::broadcast(void* data, size_t count, Dtype dtype, int root, const std::string& label) {
  begin(Broadcast, dtype, static_cast<uint32_t>(root), count, label);
  const size_t bytes = count * size_of(dtype);
  auto* memory = static_cast<char*>(data);
  const auto write = writer(bytes);
  const auto length = [&](size_t i) { return std::min(slot_bytes_, bytes - i * slot_bytes_); };
  rounds((bytes + slot_bytes_ - 1) / slot_bytes_,
         [&](size_t i) {
           if (rank_ == root && bytes > 0)
             writer_.write(my_slot(), memory + i * slot_bytes_, length(i));
         },
         [&](size_t i, uint32_t phase) {
           if (rank_ != root && bytes > 0) {
             write(memory + i * slot_bytes_, segment_->slot(root, phase), length(i));
           }
         });
}

void Channel::all_to_all(void* out, std::span<const size_t> receive, const void* in,
                         std::span<const size_t> send, Dtype dtype, const std::string& label) {
  begin(AllToAll, dtype, 0, 0, label);  // the ranks may differ in their counts
  const size_t element = size_of(dtype);
  const auto own = static_cast<size_t>(rank_);
  // First everyone tells what it sends to whom.
  size_t most = 0;
  bool fits = true;
  rounds(
      1, [&](size_t) { writer_.write(my_slot(), send.data(), send.size_bytes()); },
      [&](size_t, uint32_t phase) {
        for (int r = 0; r < size_; ++r) {
          const auto* theirs = reinterpret_cast<const size_t*>(segment_->slot(r, phase));
          const size_t* counts = r == rank_ ? send.data() : theirs;
          most = std::max(most, *std::max_element(counts, counts + size_));
          fits &= counts[own] == receive[static_cast<size_t>(r)];
        }
      });
  if (!fits) {
    segment_->abort(fmt::format("rank {}: '{}' sends other sizes than are received", rank_, label));
    fail<CommunicationError>("comm", "'{}': rank {} does not expect what the others send it", label,
                             rank_);
  }
  const size_t share = slot_bytes_ / static_cast<size_t>(size_) / kAlign * kAlign / element;
  const auto here = [&](size_t i, size_t count) {
    return std::min(share, count - std::min(count, i * share));
  };
  std::vector<size_t> from(send.size()), to(send.size());
  std::exclusive_scan(send.begin(), send.end(), from.begin(), size_t{0});
  std::exclusive_scan(receive.begin(), receive.end(), to.begin(), size_t{0});
  const auto* source = static_cast<const char*>(in);
  auto* target = static_cast<char*>(out);
  const auto write = writer(std::accumulate(receive.begin(), receive.end(), size_t{0}) * element);
  write(target + to[own] * element, source + from[own] * element, send[own] * element);
  rounds((most + share - 1) / share,
         [&](size_t i) {
           for (size_t r = 0; r < send.size(); ++r) {
             if (r == own) continue;
             writer_.write(my_slot() + r * share * element,
                           source + (from[r] + i * share) * element, here(i, send[r]) * element);
           }
         },
         [&](size_t i, uint32_t phase) {
           for (int step = 1; step < size_; ++step) {
             const auto r = static_cast<size_t>((rank_ + step) % size_);
             write(target + (to[r] + i * share) * element,
                   segment_->slot(static_cast<int>(r), phase) + own * share * element,
                   here(i, receive[r]) * element);
           }
         });
}

void Channel::barrier(const std::string& label) {
  begin(Barrier, Dtype::U8, 0, 0, label);
  rounds(1, [](size_t) {}, [](size_t, uint32_t) {});
}

}  // namespace convoy::shm
