# Store tests need PostgreSQL's programs: each starts a private throwaway server (support/pg_fixture.h).
add_library(oncepay_pg_fixture STATIC ${CMAKE_CURRENT_SOURCE_DIR}/support/pg_fixture.c)
target_link_libraries(oncepay_pg_fixture PUBLIC oncepay_store)

function(oncepay_store_test name)
    add_executable(${name} ${CMAKE_CURRENT_SOURCE_DIR}/store/${name}.c)
    target_link_libraries(${name} PRIVATE oncepay_pg_fixture PkgConfig::CMOCKA ${ARGN})
    target_compile_definitions(${name} PRIVATE SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    add_test(NAME store.${name} COMMAND ${name})
    set_tests_properties(store.${name} PROPERTIES LABELS store TIMEOUT 120)
endfunction()
add_library(oncepay_raw_http STATIC ${CMAKE_CURRENT_SOURCE_DIR}/support/raw_http.c)
target_link_libraries(oncepay_raw_http PUBLIC oncepay_pipeline)
oncepay_store_test(health_test oncepay_stage oncepay_raw_http)
