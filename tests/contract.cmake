# HTTP: the transport against a misbehaving server of its own, on a port of the kernel's choice.
pkg_check_modules(SSL REQUIRED IMPORTED_TARGET libssl)
add_executable(http_transport_test contract/http_transport_test.c contract/http_server.c
    contract/http_server_tls.c)
target_link_libraries(http_transport_test PRIVATE oncepay_http PkgConfig::CMOCKA PkgConfig::SSL
    Threads::Threads)
add_test(NAME contract.http_transport COMMAND http_transport_test)
set_tests_properties(contract.http_transport PROPERTIES LABELS contract TIMEOUT 120)

# NATS and Redis: the adapters against private servers that are killed, frozen and lied to.
function(oncepay_server_test name library)
    add_executable(${name} contract/${name}.c support/server_fixture.c ${ARGN})
    target_link_libraries(${name} PRIVATE ${library} PkgConfig::CMOCKA Threads::Threads)
    add_test(NAME contract.${name} COMMAND ${name})
    set_tests_properties(contract.${name} PROPERTIES LABELS contract TIMEOUT 300)
endfunction()
oncepay_server_test(bus_consumer_test oncepay_nats contract/bus_fixture.c)
oncepay_server_test(bus_publish_test oncepay_nats contract/bus_fixture.c)
oncepay_server_test(bus_topology_test oncepay_nats contract/bus_fixture.c)
oncepay_server_test(cache_redis_test oncepay_redis)
