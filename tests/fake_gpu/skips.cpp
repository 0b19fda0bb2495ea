#include "tests/fake_gpu/skips.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tests/fake_gpu/options.h"
#include "tests/fake_gpu/report.h"
#include "tests/fake_gpu/symbols.h"

namespace convoy::fake_gpu {

namespace {

bool make_return(void* function) {
  constexpr unsigned char kReturn = 0xc3;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto* begin = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(function) / page * page);
  if (::mprotect(begin, page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return false;
  *static_cast<unsigned char*>(function) = kReturn;
  return ::mprotect(begin, page, PROT_READ | PROT_EXEC) == 0;
}

}  // namespace

void skip_functions() {
  for (const auto& name : options().skipped) {
    bool found = false;
    for (void* function : program_functions(name)) found = make_return(function) || found;
    if (!found) misused_quietly("skip: the program has no function " + name);
  }
}

}  // namespace convoy::fake_gpu
