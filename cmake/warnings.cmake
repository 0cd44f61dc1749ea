# The one interface target every oncepay target links: language, POSIX level, warnings as errors.
include(CheckCCompilerFlag)

add_library(oncepay_build INTERFACE)
target_include_directories(oncepay_build INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(oncepay_build INTERFACE _POSIX_C_SOURCE=200809L _DEFAULT_SOURCE)

set(ONCEPAY_WARNINGS
    -Wall -Wextra -Werror
    -Wpedantic              # ISO C11: both compilers, no extensions by accident
    -Wconversion            # an amount or a length never narrows silently
    -Wsign-conversion
    -Wshadow
    -Wformat=2
    -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition
    -Wwrite-strings -Wcast-qual -Wpointer-arith -Wundef
    -Wvla -Walloca          # every buffer has a stated size
    -Wfloat-equal -Wdouble-promotion
    -Wswitch-enum           # a new state must break the build where it is not handled
    -Wimplicit-fallthrough
    -Wnull-dereference
    # gcc only
    -Wformat-signedness -Wduplicated-cond -Wduplicated-branches -Wlogical-op
    -Wjump-misses-init -Wcast-align=strict
    # clang only
    -Wcomma -Wmissing-variable-declarations)
foreach(flag IN LISTS ONCEPAY_WARNINGS)
    string(MAKE_C_IDENTIFIER "has${flag}" name)
    check_c_compiler_flag(${flag} ${name})
    if(${name})
        target_compile_options(oncepay_build INTERFACE ${flag})
    endif()
endforeach()

if(ONCEPAY_CRASH_POINTS)
    target_compile_definitions(oncepay_build INTERFACE ONCEPAY_CRASH_POINTS=1)
endif()
