# convoy_component(NAME [TORCH] [WITH_TORCH folder...] [LINK lib...] [COMPONENTS component...])
#
# One folder = one target = one namespace. Sources are all *.cpp directly in convoy/NAME and its
# sub-folders. COMPONENTS are the components below that this one may know; `./dev lint` checks the includes.
# WITH_TORCH: sub-folders, by name at any depth, that need torch; convoy_torch_part(NAME) makes a target of them,
# NAME_torch, which may know NAME and more components.
function(convoy_component name)
  cmake_parse_arguments(arg "TORCH" "" "LINK;COMPONENTS;WITH_TORCH" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/convoy/${name}/*.cpp)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/convoy/${name}/*.h)
  if(arg_WITH_TORCH)
    list(JOIN arg_WITH_TORCH "|" folders)
    set(parts ${sources})
    list(FILTER parts INCLUDE REGEX "/convoy/${name}/(.*/)?(${folders})/")
    list(FILTER sources EXCLUDE REGEX "/convoy/${name}/(.*/)?(${folders})/")
    set(convoy_${name}_torch_sources ${parts} PARENT_SCOPE)
  endif()
  add_library(convoy_${name} STATIC ${sources} ${headers})
  convoy_library(${name} "${arg_TORCH}" "${arg_COMPONENTS}" "${arg_LINK}")
endfunction()

# convoy_kernels() makes a header of each kernel's text in convoy/: a raw string, as <convoy/FOLDER/NAME_cu.h>.
function(convoy_kernels)
  file(GLOB_RECURSE texts CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/convoy/*.cu)
  foreach(text IN LISTS texts)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${text})
    file(READ ${text} content)
    string(REGEX REPLACE "[.]cu$" "_cu.h" header ${text})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/kernels/${header} CONTENT "R\"cuda(${content})cuda\"" @ONLY)
  endforeach()
endfunction()

function(convoy_torch_part name)
  cmake_parse_arguments(arg "" "" "COMPONENTS" ${ARGN})
  add_library(convoy_${name}_torch STATIC ${convoy_${name}_torch_sources})
  convoy_library(${name}_torch TRUE "${name};${arg_COMPONENTS}" "")
endfunction()

function(convoy_library name torch components libraries)
  add_library(convoy::${name} ALIAS convoy_${name})
  set_target_properties(convoy_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_compile_features(convoy_${name} PUBLIC cxx_std_20)
  target_include_directories(convoy_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  foreach(component IN LISTS components)
    target_link_libraries(convoy_${name} PUBLIC convoy_${component})
  endforeach()
  target_link_libraries(convoy_${name} PUBLIC ${libraries})
  convoy_warnings(convoy_${name})
  if(torch)
    target_link_libraries(convoy_${name} PUBLIC LibTorch::torch)
    convoy_torch_pch(convoy_${name})
  else()
    convoy_plain_pch(convoy_${name})
  endif()
  install(TARGETS convoy_${name} EXPORT convoy-targets ARCHIVE DESTINATION lib)
endfunction()

function(convoy_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
endfunction()

# A precompiled header only fits code compiled with the same flags: programs must say -fPIC too.
function(convoy_match_pch target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

# All targets that use torch share one precompiled header: it saves 8 s a file.
function(convoy_torch_pch target)
  if(NOT CONVOY_PCH)
    return()
  endif()
  if(NOT TARGET convoy_pch)
    file(WRITE ${CMAKE_BINARY_DIR}/pch.cpp.new "")
    file(COPY_FILE ${CMAKE_BINARY_DIR}/pch.cpp.new ${CMAKE_BINARY_DIR}/pch.cpp ONLY_IF_DIFFERENT)
    add_library(convoy_pch OBJECT ${CMAKE_BINARY_DIR}/pch.cpp)
    set_target_properties(convoy_pch PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_features(convoy_pch PUBLIC cxx_std_20)
    target_link_libraries(convoy_pch PUBLIC LibTorch::torch Fmt::fmt nlohmann_json::nlohmann_json)
    convoy_warnings(convoy_pch)
    target_precompile_headers(convoy_pch PRIVATE
      <ATen/ATen.h>
      <fmt/format.h> <nlohmann/json.hpp> <functional> <map> <memory> <optional> <string> <vector>)
  endif()
  convoy_match_pch(${target})
  target_precompile_headers(${target} REUSE_FROM convoy_pch)
endfunction()

# The same for targets without torch.
function(convoy_plain_pch target)
  if(NOT CONVOY_PCH)
    return()
  endif()
  if(NOT TARGET convoy_plain_pch)
    file(WRITE ${CMAKE_BINARY_DIR}/pch.cpp.new "")
    file(COPY_FILE ${CMAKE_BINARY_DIR}/pch.cpp.new ${CMAKE_BINARY_DIR}/pch.cpp ONLY_IF_DIFFERENT)
    add_library(convoy_plain_pch OBJECT ${CMAKE_BINARY_DIR}/pch.cpp)
    set_target_properties(convoy_plain_pch PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_features(convoy_plain_pch PUBLIC cxx_std_20)
    target_link_libraries(convoy_plain_pch PUBLIC Fmt::fmt nlohmann_json::nlohmann_json)
    convoy_warnings(convoy_plain_pch)
    target_precompile_headers(convoy_plain_pch PRIVATE
      <fmt/format.h> <nlohmann/json.hpp> <chrono> <filesystem> <functional> <map> <memory>
      <optional> <string> <vector>)
  endif()
  convoy_match_pch(${target})
  target_precompile_headers(${target} REUSE_FROM convoy_plain_pch)
endfunction()

# convoy_test(COMPONENT) makes one GoogleTest program from tests/COMPONENT/*.cpp. Only the tests of "gpu" see GPUs:
# the others hold on every machine alike.
function(convoy_test name)
  cmake_parse_arguments(arg "TORCH" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${name}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  if(arg_TORCH)
    list(APPEND sources ${PROJECT_SOURCE_DIR}/tests/torch_seed.cpp)
  endif()
  add_executable(test_${name} ${sources})
  set_target_properties(test_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests POSITION_INDEPENDENT_CODE ON)
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(test_${name} PRIVATE ${arg_LINK} GTest::gtest_main)
  target_compile_definitions(test_${name} PRIVATE
    CONVOY_SOURCE_DIR="${PROJECT_SOURCE_DIR}" CONVOY_BINARY_DIR="${CMAKE_BINARY_DIR}")
  convoy_warnings(test_${name})
  if(arg_TORCH)
    convoy_torch_pch(test_${name})
  else()
    convoy_plain_pch(test_${name})
  endif()
  set(gpus "CUDA_VISIBLE_DEVICES=set:")
  if(name STREQUAL "gpu")
    set(gpus "CUDA_VISIBLE_DEVICES=reset:")
  endif()
  gtest_discover_tests(test_${name} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${name}" TIMEOUT 300 ENVIRONMENT "OMP_NUM_THREADS=1"
    ENVIRONMENT_MODIFICATION "${gpus}")
endfunction()

# convoy_fuzz(NAME [TORCH] LINK lib...) replays the corpus of tests/fuzz/NAME_fuzz.cpp, and some seconds of
# mutations of it, as the test fuzz.NAME.
function(convoy_fuzz name)
  cmake_parse_arguments(arg "TORCH" "" "LINK" ${ARGN})
  add_executable(fuzz_${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/${name}_fuzz.cpp
    ${PROJECT_SOURCE_DIR}/tests/fuzz/replay.cpp)
  set_target_properties(fuzz_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests POSITION_INDEPENDENT_CODE ON)
  target_include_directories(fuzz_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(fuzz_${name} PRIVATE ${arg_LINK})
  convoy_warnings(fuzz_${name})
  set(_label fuzz)
  if(arg_TORCH)
    convoy_torch_pch(fuzz_${name})
    set(_label fuzz_torch)  # the sanitizers are for the others
  else()
    convoy_plain_pch(fuzz_${name})
  endif()
  add_test(NAME fuzz.${name} COMMAND fuzz_${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  set_tests_properties(fuzz.${name} PROPERTIES LABELS ${_label} TIMEOUT 300)
endfunction()
