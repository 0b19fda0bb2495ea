# Finds Arrow and Parquet C++ in the `pyarrow` wheel.
#
# Input:    CONVOY_SITE_PACKAGES
# Targets:  ArrowWheel::arrow, ArrowWheel::parquet
# Output:   ArrowWheel_VERSION, ArrowWheel_RPATH
set(_arrow "${CONVOY_SITE_PACKAGES}/pyarrow")
find_path(ArrowWheel_INCLUDE_DIR arrow/api.h PATHS "${_arrow}/include" NO_DEFAULT_PATH)
file(GLOB ArrowWheel_ARROW_LIBRARY "${_arrow}/libarrow.so.*")
file(GLOB ArrowWheel_PARQUET_LIBRARY "${_arrow}/libparquet.so.*")
if(ArrowWheel_INCLUDE_DIR)
  file(STRINGS "${ArrowWheel_INCLUDE_DIR}/arrow/util/config.h" _line REGEX "ARROW_VERSION_STRING")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" ArrowWheel_VERSION "${_line}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ArrowWheel
  REQUIRED_VARS ArrowWheel_ARROW_LIBRARY ArrowWheel_PARQUET_LIBRARY ArrowWheel_INCLUDE_DIR
  VERSION_VAR ArrowWheel_VERSION
  REASON_FAILURE_MESSAGE "no pyarrow wheel in '${CONVOY_SITE_PACKAGES}': run ./dev build, or pass -DCONVOY_SITE_PACKAGES=<venv>/lib/python3.x/site-packages")

if(ArrowWheel_FOUND AND NOT TARGET ArrowWheel::arrow)
  set(ArrowWheel_RPATH "${_arrow}")
  add_library(ArrowWheel::arrow SHARED IMPORTED)
  set_target_properties(ArrowWheel::arrow PROPERTIES
    IMPORTED_LOCATION "${ArrowWheel_ARROW_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${ArrowWheel_INCLUDE_DIR}")
  add_library(ArrowWheel::parquet SHARED IMPORTED)
  set_target_properties(ArrowWheel::parquet PROPERTIES
    IMPORTED_LOCATION "${ArrowWheel_PARQUET_LIBRARY}"
    INTERFACE_LINK_LIBRARIES ArrowWheel::arrow)
endif()
