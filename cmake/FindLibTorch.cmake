# Finds LibTorch in the `torch` wheel, without asking for a CUDA toolkit.
#
# Input:    CONVOY_SITE_PACKAGES  folder that holds the wheels (torch/, nvidia/, pyarrow/)
# Targets:  LibTorch::torch       headers, libc10, libtorch_cpu (dispatches to CUDA when that is loaded)
# Output:   LibTorch_VERSION, LibTorch_RPATH (folders the program needs at run time, in order)
set(_torch "${CONVOY_SITE_PACKAGES}/torch")
find_path(LibTorch_INCLUDE_DIR ATen/ATen.h PATHS "${_torch}/include" NO_DEFAULT_PATH)
find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS "${_torch}/lib" NO_DEFAULT_PATH)
find_library(LibTorch_C10_LIBRARY c10 PATHS "${_torch}/lib" NO_DEFAULT_PATH)
if(EXISTS "${_torch}/version.py")
  file(STRINGS "${_torch}/version.py" _line REGEX "^__version__")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" LibTorch_VERSION "${_line}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "no torch wheel in '${CONVOY_SITE_PACKAGES}': run ./dev build, or pass -DCONVOY_SITE_PACKAGES=<venv>/lib/python3.x/site-packages")

if(LibTorch_FOUND AND NOT TARGET LibTorch::torch)
  # libtorch_cpu itself needs libcudart and libcupti from the NVIDIA wheels: their folders come first.
  file(GLOB _nvidia "${CONVOY_SITE_PACKAGES}/nvidia/*/lib")
  set(LibTorch_RPATH ${_nvidia} "${_torch}/lib")
  add_library(LibTorch::c10 SHARED IMPORTED)
  set_target_properties(LibTorch::c10 PROPERTIES IMPORTED_LOCATION "${LibTorch_C10_LIBRARY}")
  add_library(LibTorch::torch SHARED IMPORTED)
  set_target_properties(LibTorch::torch PROPERTIES
    IMPORTED_LOCATION "${LibTorch_CPU_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIR};${LibTorch_INCLUDE_DIR}/torch/csrc/api/include"
    INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO"
    INTERFACE_COMPILE_FEATURES cxx_std_20
    # What libtorch_cpu needs in turn is resolved at run time by its own RPATH.
    INTERFACE_LINK_OPTIONS "LINKER:--unresolved-symbols=ignore-in-shared-libs"
    INTERFACE_LINK_LIBRARIES LibTorch::c10)
endif()
