# HTTP: the transport against a misbehaving server of its own, on a port of the kernel's choice.
pkg_check_modules(SSL REQUIRED IMPORTED_TARGET libssl)
add_executable(http_transport_test contract/http_transport_test.c contract/http_server.c
    contract/http_server_tls.c)
target_link_libraries(http_transport_test PRIVATE oncepay_http PkgConfig::CMOCKA PkgConfig::SSL
    Threads::Threads)
add_test(NAME contract.http_transport COMMAND http_transport_test)
set_tests_properties(contract.http_transport PROPERTIES LABELS contract TIMEOUT 120)
# … and with the adapter in between, against the simulator.
add_executable(http_stripe_test contract/http_stripe_test.c support/server_fixture.c)
target_link_libraries(http_stripe_test PRIVATE oncepay_http oncepay_stripe PkgConfig::CMOCKA)
target_compile_definitions(http_stripe_test PRIVATE PSP_SIM="$<TARGET_FILE:oncepay-psp-sim>")
add_dependencies(http_stripe_test oncepay-psp-sim)
add_test(NAME contract.http_stripe COMMAND http_stripe_test)
set_tests_properties(contract.http_stripe PROPERTIES LABELS contract TIMEOUT 120)

# NATS and Redis: the adapters against private servers that are killed, frozen and lied to.
function(oncepay_server_test name library)
    add_executable(${name} contract/${name}.c support/server_fixture.c ${ARGN})
    target_link_libraries(${name} PRIVATE ${library} PkgConfig::CMOCKA Threads::Threads)
    target_compile_definitions(${name} PRIVATE SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    add_test(NAME contract.${name} COMMAND ${name})
    set_tests_properties(contract.${name} PROPERTIES LABELS contract TIMEOUT 300)
endfunction()
oncepay_server_test(bus_consumer_test oncepay_nats contract/bus_fixture.c)
oncepay_server_test(bus_publish_test oncepay_nats contract/bus_fixture.c)
oncepay_server_test(bus_topology_test oncepay_nats contract/bus_fixture.c)
target_link_libraries(bus_topology_test PRIVATE oncepay_config)
oncepay_server_test(bus_tls_test oncepay_nats)
oncepay_server_test(cache_redis_test oncepay_redis)

# The relay between a PostgreSQL and a NATS that loses what it held.
oncepay_server_test(relay_nats_test oncepay_relay_core contract/bus_fixture.c)
target_link_libraries(relay_nats_test PRIVATE oncepay_pg_fixture)
