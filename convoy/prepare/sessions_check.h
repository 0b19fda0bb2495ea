#pragma once

// Internal to the component: options of a preparation that do not fit together.

#include "convoy/prepare/sessions.h"

namespace convoy::prepare {

/// Throws UsageError on impossible options, and on files of an earlier preparation that these would
/// leave beside their own.
void check_options(const SessionOptions& options);

}  // namespace convoy::prepare
