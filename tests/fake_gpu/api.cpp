#include "tests/fake_gpu/api.h"

#include "tests/fake_gpu/counters.h"
#include "tests/fake_gpu/notes.h"
#include "tests/fake_gpu/options.h"
#include "tests/fake_gpu/report.h"

using namespace convoy::fake_gpu;

long fake_gpu_num_misuses() {
  return num_misuses();
}

const char* fake_gpu_first_misuse() {
  static thread_local std::string text;
  text = first_misuse();
  return text.c_str();
}

void fake_gpu_reset() {
  forget_misuses();
  reset_counts();
}

void fake_gpu_set(const char* text) {
  parse_options(text, options());
}

void fake_gpu_heed_all() {
  options().ignored.clear();
}

void fake_gpu_label(int64_t step, const char* text) {
  set_label(step, text);
}

void fake_gpu_counts(int64_t* numbers) {
  const auto c = total_counts();
  for (const int64_t number :
       {c.launches, c.beside, c.waits, c.blocking_copies, c.to_device, c.to_device_bytes, c.to_host,
        c.to_host_bytes, c.segments, c.operand_bytes}) {
    *numbers++ = number;
  }
}
