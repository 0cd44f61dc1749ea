# The short fixed set of chaos runs; longer ones are done by hand: ops/chaos --seed N --minutes M.
add_test(NAME chaos.fixed_set COMMAND ${CMAKE_SOURCE_DIR}/ops/chaos --ci)
set_tests_properties(chaos.fixed_set PROPERTIES LABELS chaos TIMEOUT 600 RUN_SERIAL TRUE
    ENVIRONMENT "ONCEPAY_BIN=${CMAKE_BINARY_DIR}/bin;PYTHONDONTWRITEBYTECODE=1")
