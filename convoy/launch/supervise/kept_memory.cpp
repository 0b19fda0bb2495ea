#include "convoy/launch/supervise/kept_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/memory_links.h"

namespace convoy::launch {
namespace fs = std::filesystem;

KeptMemory::KeptMemory(fs::path folder) : folder_(std::move(folder)) {
  make_folder(folder_);
  for (int i = 0; i < kFiles; ++i) {
    auto& file = files_.emplace_back(::memfd_create("convoy-memory", MFD_CLOEXEC));
    if (file.get() < 0) {
      fail<FileError>("launch", "cannot make a file in memory for --max-restarts: {}",
                      std::strerror(errno));
    }
    // A rank that opens it has the file itself, not this process's descriptor.
    std::error_code error;
    fs::create_symlink(fmt::format("/proc/{}/fd/{}", ::getpid(), file.get()),
                       folder_ / memory_link(i), error);
    if (error) {
      fail<FileError>("launch", "cannot make a link in {}: {}", folder_.string(), error.message());
    }
  }
}

bool KeptMemory::forget() {
  bool any = false;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    if (entry.path().filename().string().starts_with(kMemoryLink)) continue;
    any = any || entry.is_directory(ignored);
    fs::remove_all(entry.path(), ignored);
  }
  for (const auto& file : files_) static_cast<void>(::ftruncate(file.get(), 0));
  std::ofstream(folder_ / kInDoubt).flush();
  return any;
}

bool KeptMemory::judge(bool again) {
  if (again) return forget();
  trust();
  return false;
}

void KeptMemory::trust() {
  std::error_code ignored;
  fs::remove(folder_ / kInDoubt, ignored);
}

std::string told_dropped(int64_t step) {
  return fmt::format("[launch] step {} failed twice in a row: the copies in memory are dropped\n",
                     step);
}

std::unique_ptr<KeptMemory> keep_memory(const fs::path& folder, OutputQueue& output_queue) try {
  return std::make_unique<KeptMemory>(folder);
} catch (const FileError& error) {
  output_queue.say(fmt::format("warning: {}; restarts go on from checkpoints\n", error.what()));
  return nullptr;
}

}  // namespace convoy::launch
