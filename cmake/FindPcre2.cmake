# Finds PCRE2, eight bits a character, as Debian packages it.
#
# Targets:  Pcre2::pcre2
find_path(Pcre2_INCLUDE pcre2.h)
find_library(Pcre2_LIBRARY pcre2-8)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Pcre2 REQUIRED_VARS Pcre2_LIBRARY Pcre2_INCLUDE)
mark_as_advanced(Pcre2_INCLUDE Pcre2_LIBRARY)
if(Pcre2_FOUND AND NOT TARGET Pcre2::pcre2)
  add_library(Pcre2::pcre2 UNKNOWN IMPORTED)
  set_target_properties(Pcre2::pcre2 PROPERTIES
    IMPORTED_LOCATION "${Pcre2_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${Pcre2_INCLUDE}")
endif()
