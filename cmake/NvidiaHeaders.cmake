# convoy_nvidia_headers(SITE FOLDERS_VAR MISSING_VAR) finds what torch's NCCL header includes.
#
# SITE is the folder of the wheels. torch for CUDA 13 has one folder for the headers of the toolkit,
# nvidia/cu13/include, torch for CUDA 12 one for each wheel. The wheels that torch itself asks for lack
# crt/ and nv/; `./dev build --gpu` adds them. CONVOY_CUDA_INCLUDE may name folders of a toolkit.
# MISSING_VAR gets the headers that are in none of the folders.
function(convoy_nvidia_headers site folders_var missing_var)
  file(GLOB folders "${site}/nvidia/*/include" "${site}/nvidia/*/include/cccl")
  list(APPEND folders ${CONVOY_CUDA_INCLUDE})
  set(missing nccl.h cuda_runtime_api.h crt/host_defines.h nv/target cublas_v2.h cusparse.h cusolverDn.h)
  foreach(header IN LISTS missing)
    foreach(folder IN LISTS folders)
      if(EXISTS "${folder}/${header}")
        list(REMOVE_ITEM missing "${header}")
      endif()
    endforeach()
  endforeach()
  set(${folders_var} "${folders}" PARENT_SCOPE)
  set(${missing_var} "${missing}" PARENT_SCOPE)
endfunction()
