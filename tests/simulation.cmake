# The decision core in a simulated world (simulation/simulate_main.c). What the real code draws from
# the machine (ids, jitter, time) comes from the world: wrap.c.
file(GLOB simulation_sources CONFIGURE_DEPENDS simulation/*.c)
add_executable(oncepay-simulate ${simulation_sources})
target_link_libraries(oncepay-simulate PRIVATE oncepay_intake_core oncepay_route_core
    oncepay_settle_core oncepay_relay_core)
foreach(drawn uuid_new stage_jitter_ms stage_spread_ms clock_real_us clock_monotonic_us)
    target_link_options(oncepay-simulate PRIVATE -Wl,--wrap=${drawn})
endforeach()

function(oncepay_simulation_test name)
    add_test(NAME simulation.${name} COMMAND oncepay-simulate ${ARGN})
    set_tests_properties(simulation.${name} PROPERTIES LABELS simulation TIMEOUT 900)
endfunction()
oncepay_simulation_test(seeds --seeds 3000 --reach)
oncepay_simulation_test(regressions
    --regressions ${CMAKE_CURRENT_SOURCE_DIR}/simulation/regressions.txt)
oncepay_simulation_test(mutants --mutants --seeds 8000)
