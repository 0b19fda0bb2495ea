# cmake -DFOLDER=... -P nvidia_headers.cmake: the choice of NVIDIA's headers, on pretended wheels.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/NvidiaHeaders.cmake)

function(wheel site folder)
  foreach(header IN LISTS ARGN)
    file(WRITE "${site}/nvidia/${folder}/include/${header}" "")
  endforeach()
endfunction()

function(expect site folders missing)
  convoy_nvidia_headers("${site}" got_folders got_missing)
  list(TRANSFORM got_folders REPLACE "^${site}/nvidia/" "")
  list(SORT got_folders)
  if(NOT "${got_folders}" STREQUAL "${folders}" OR NOT "${got_missing}" STREQUAL "${missing}")
    message(SEND_ERROR "${site}: got folders '${got_folders}', missing '${got_missing}'; "
      "expected '${folders}', '${missing}'")
  endif()
endfunction()

file(REMOVE_RECURSE "${FOLDER}")
set(others cuda_runtime_api.h cublas_v2.h cusparse.h cusolverDn.h)
expect("${FOLDER}/none" ""
  "nccl.h;cuda_runtime_api.h;crt/host_defines.h;nv/target;cublas_v2.h;cusparse.h;cusolverDn.h")
# What torch 2.15 brings by itself.
wheel("${FOLDER}/bare" nccl nccl.h)
wheel("${FOLDER}/bare" cu13 ${others})
expect("${FOLDER}/bare" "cu13/include;nccl/include" "crt/host_defines.h;nv/target")
# With the wheels of crt and cccl, the latter in either of its places.
wheel("${FOLDER}/bare" cu13 crt/host_defines.h cccl/nv/target)
expect("${FOLDER}/bare" "cu13/include;cu13/include/cccl;nccl/include" "")
# torch of CUDA 12: a folder for each wheel.
wheel("${FOLDER}/twelve" nccl nccl.h)
wheel("${FOLDER}/twelve" cuda_runtime cuda_runtime_api.h)
wheel("${FOLDER}/twelve" cuda_nvcc crt/host_defines.h)
wheel("${FOLDER}/twelve" cuda_cccl nv/target)
wheel("${FOLDER}/twelve" cublas cublas_v2.h)
wheel("${FOLDER}/twelve" cusparse cusparse.h)
expect("${FOLDER}/twelve"
  "cublas/include;cuda_cccl/include;cuda_nvcc/include;cuda_runtime/include;cusparse/include;nccl/include"
  "cusolverDn.h")
# A folder of a toolkit fills the gap.
file(WRITE "${FOLDER}/toolkit/cusolverDn.h" "")
set(CONVOY_CUDA_INCLUDE "${FOLDER}/toolkit")
convoy_nvidia_headers("${FOLDER}/twelve" folders missing)
if(missing)
  message(SEND_ERROR "CONVOY_CUDA_INCLUDE was not looked at: missing '${missing}'")
endif()
