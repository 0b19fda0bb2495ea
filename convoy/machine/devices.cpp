#include "convoy/machine/devices.h"

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/machine/cores.h"
#include "convoy/machine/gpus.h"

namespace convoy::machine {
int resolve_num_ranks(std::string_view text) {
  int64_t number = 0;
  if (parse_number(text, number) && number >= 1 && number <= 4096) return static_cast<int>(number);
  const int gpus = visible_gpus();
  if (text == "gpu") {
    if (gpus > 0) return gpus;
    fail<UsageError>("machine",
                     "-n gpu: no NVIDIA GPU is visible; expected /dev/nvidia0 and a "
                     "CUDA_VISIBLE_DEVICES that does not hide it; try -n cpu");
  }
  if (text == "auto" && gpus > 0) return gpus;
  if (text == "auto" || text == "cpu") return usable_cores();
  fail<UsageError>(
      "machine", "the number of ranks is '{}'; expected a number from 1 to 4096, auto, gpu or cpu",
      text);
}

}  // namespace convoy::machine
