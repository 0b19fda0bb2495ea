#pragma once

/// The public interface of convoy.

#include "convoy/base/error.h"
#include "convoy/checkpoint/load_pretrained.h"
#include "convoy/comm/group.h"
#include "convoy/launch/report_failure.h"
#include "convoy/models/language_model.h"
#include "convoy/nn/block.h"
#include "convoy/nn/layers.h"
#include "convoy/nn/module_block.h"
#include "convoy/train/batches.h"
#include "convoy/train/callback.h"
#include "convoy/train/setup/arguments.h"
#include "convoy/train/trainer.h"
#include "convoy/wrappers/own_loop.h"

namespace convoy {

using checkpoint::load_pretrained;
using launch::report_failure;
using nn::Bundle;
using nn::module_model;
using train::Callback;
using train::Dataset;
using train::make_map_dataset;
using train::make_mixed_dataset;
using train::open_devices;
using train::Trainer;
using train::TrainingArguments;
using wrappers::DataParallel;
using wrappers::DistributedDataParallel;
using wrappers::spawn;
using wrappers::world;

}  // namespace convoy
