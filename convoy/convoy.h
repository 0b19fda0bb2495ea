#pragma once

/// Public interface of convoy.

#include "convoy/base/error.h"
#include "convoy/checkpoint/load_pretrained.h"
#include "convoy/comm/group.h"
#include "convoy/dataset/batches.h"
#include "convoy/job/open_devices.h"
#include "convoy/launch/report_failure.h"
#include "convoy/models/language_model.h"
#include "convoy/nn/block.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/module_block.h"
#include "convoy/options/arguments.h"
#include "convoy/train/callback.h"
#include "convoy/train/trainer.h"
#include "convoy/wrappers/own_loop.h"

namespace convoy {

using checkpoint::load_pretrained;
using dataset::Dataset;
using dataset::make_map_dataset;
using dataset::make_mixed_dataset;
using job::open_devices;
using launch::report_failure;
using nn::Bundle;
using nn::module_model;
using options::TrainingArguments;
using train::Callback;
using train::Trainer;
using wrappers::DataParallel;
using wrappers::DistributedDataParallel;
using wrappers::spawn;
using wrappers::world;

}  // namespace convoy
