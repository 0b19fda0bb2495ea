#include "convoy/job/open_devices.h"

#include "convoy/comm/cuda.h"
#include "convoy/machine/gpus.h"

namespace convoy::job {

void open_devices() {
  if (machine::visible_gpus() > 0) comm::open_cuda();
}

}  // namespace convoy::job
