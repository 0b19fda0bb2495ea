# Finds the fmt headers that the torch wheel carries and exposes them alone, so that components without
# torch can format text with the same fmt as components with torch. convoy/base/fmt.cpp compiles the part
# that is not in the headers.
#
# Input:    CONVOY_SITE_PACKAGES
# Targets:  Fmt::fmt
find_path(Fmt_TORCH_INCLUDE fmt/format.h
  PATHS "${CONVOY_SITE_PACKAGES}/torch/include" NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Fmt REQUIRED_VARS Fmt_TORCH_INCLUDE)
if(Fmt_FOUND AND NOT TARGET Fmt::fmt)
  set(_alone "${CMAKE_BINARY_DIR}/fmt-alone")
  file(MAKE_DIRECTORY "${_alone}")
  file(CREATE_LINK "${Fmt_TORCH_INCLUDE}/fmt" "${_alone}/fmt" SYMBOLIC)
  add_library(Fmt::fmt INTERFACE IMPORTED)
  set_target_properties(Fmt::fmt PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_alone}")
endif()
