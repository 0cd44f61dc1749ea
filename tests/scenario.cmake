# Scenario tests: real servers, real processes, the simulator as the outside world. One file, one ctest entry;
# each class in it has a stack of its own, so they may run side by side, but two cores want them in turn.
find_program(PYTHON3 NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)
file(GLOB scenarios CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/scenario/*_test.py)
foreach(scenario IN LISTS scenarios)
    get_filename_component(name ${scenario} NAME_WE)
    add_test(NAME scenario.${name} COMMAND ${PYTHON3} ${scenario})
    set_tests_properties(scenario.${name} PROPERTIES LABELS scenario TIMEOUT 600 RUN_SERIAL TRUE
        ENVIRONMENT "ONCEPAY_BIN=${CMAKE_BINARY_DIR}/bin;PYTHONDONTWRITEBYTECODE=1")
endforeach()
