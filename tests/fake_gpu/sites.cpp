#include "tests/fake_gpu/sites.h"

#include <fcntl.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "tests/fake_gpu/device_lock.h"
#include "tests/fake_gpu/options.h"
#include "tests/fake_gpu/symbols.h"

namespace convoy::fake_gpu {

namespace {

enum class Kind { Own, Torch, Passed, Wrapper, Site };

struct Frame {
  Kind kind = Kind::Torch;
  std::string name;  // "convoy::comm::Group::wait+0x1a"
};

bool begins_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view beginning) { return text.starts_with(beginning); });
}

Frame describe(const void* address) {
  // A return address may be that of the next function.
  const auto place = place_of(static_cast<const char*>(address) - 1);
  const std::string_view file = place.file;
  const auto has = [&](std::string_view part) { return file.find(part) != file.npos; };
  if (has("libtorch_cuda.so") || has("libconvoy_nccl.so")) return {Kind::Own, ""};
  if (has("libtorch") || has("libc10") || place.function.empty()) return {Kind::Torch, ""};
  if (begins_with_any(place.function, {"c10::", "c10d::", "at::", "std::", "torch::", "__gnu"})) {
    return {Kind::Passed, ""};
  }
  std::array<char, 32> offset{};
  std::snprintf(offset.data(), offset.size(), "+0x%zx", place.offset + 1);
  // What waits for others of its kind stands for them all.
  const bool passes_on = place.function.starts_with("convoy::comm::") &&
                         place.function.find("::ThenWork::") == std::string::npos;
  return {passes_on ? Kind::Wrapper : Kind::Site, place.function + offset.data()};
}

struct Sites {
  std::map<const void*, Frame> frames;
  std::set<std::string> seen;
};

Sites& all() {
  static auto* sites = new Sites;
  return *sites;
}

const Frame& frame_at(const void* address) {
  auto& frames = all().frames;
  const auto [found, fresh] = frames.try_emplace(address);
  if (fresh) found->second = describe(address);
  return found->second;
}

struct Walk {
  bool through_wrappers;
  std::string name;
};

_Unwind_Reason_Code step(_Unwind_Context* context, void* to) {
  auto& walk = *static_cast<Walk*>(to);
  const auto address = _Unwind_GetIP(context);
  if (address == 0) return _URC_END_OF_STACK;
  const auto& frame = frame_at(reinterpret_cast<const void*>(address));
  if (frame.kind == Kind::Own || frame.kind == Kind::Passed) return _URC_NO_REASON;
  if (frame.kind == Kind::Torch) return _URC_END_OF_STACK;
  walk.name = frame.name;
  const bool goes_on = walk.through_wrappers && frame.kind == Kind::Wrapper;
  return goes_on ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void tell_new(const std::string& name) {
  if (options().sites.empty() || !all().seen.insert(name).second) return;
  const auto line = name + "\n";
  const int fd = ::open(options().sites.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  [[maybe_unused]] const auto written = ::write(fd, line.data(), line.size());
  ::close(fd);
}

}  // namespace

bool ignored_here(const char* action) {
  const auto& ignored = options().ignored;
  if (ignored.empty() && options().sites.empty()) return false;
  const Locked lock;
  // Who waits for a collective is said by whoever calls the group's handle.
  Walk walk{std::string_view(action) == "work_wait", ""};
  _Unwind_Backtrace(step, &walk);
  if (walk.name.empty()) return false;
  const auto name = std::string(action) + " " + walk.name;
  tell_new(name);
  const auto without_offset = name.substr(0, name.rfind('+'));
  return std::any_of(ignored.begin(), ignored.end(),
                     [&](const std::string& one) { return one == name || one == without_offset; });
}

}  // namespace convoy::fake_gpu
