# Run by `cmake --install` with SOURCE set: installs the public headers, for programs, for families of models and for tasks, and
# those that they reach.
cmake_policy(VERSION 3.25)
set(found convoy/convoy.h convoy/program.h convoy/models/causal_head.h
  convoy/models/gpt2/gpt2.h convoy/models/decoder/decoder.h convoy/nn/attention/attention.h convoy/nn/layers/layers.h convoy/checkpoint/weights.h convoy/tasks/task.h
  convoy/planner/estimate/estimate.h convoy/train/state.h convoy/launch/error_file.h convoy/launch/stop_signal.h
  convoy/parallel/run/replica.h convoy/parallel/pipeline/pipeline.h
  convoy/comm/engine_registry.h convoy/comm/gloo/gloo_engine.h convoy/optim/optimizer.h
  convoy/tasks/session/recommender.h convoy/tasks/session/train_recommender.h)
set(waiting ${found})
while(waiting)
  list(POP_FRONT waiting header)
  file(STRINGS ${SOURCE}/${header} lines REGEX "^#include \"convoy/")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" included "${line}")
    if(NOT included IN_LIST found)
      list(APPEND found ${included})
      list(APPEND waiting ${included})
    endif()
  endforeach()
endwhile()
foreach(header IN LISTS found)
  cmake_path(GET header PARENT_PATH folder)
  file(INSTALL ${SOURCE}/${header} DESTINATION "${CMAKE_INSTALL_PREFIX}/include/${folder}")
endforeach()
