# What has threads, for the thread sanitizer (ops/test): the gateway's HTTP server and inbox, the
# health server, libnats' deliveries; and a scenario with all processes. The rest of oncepay is one
# thread per process. Target "threads" builds no more than these tests need.
set(threaded gateway_test health_test bus_consumer_test bus_publish_test relay_nats_test)
add_custom_target(threads DEPENDS ${threaded})
foreach(name IN LISTS threaded)
    foreach(test store.${name} contract.${name})
        if(TEST ${test})
            set_property(TEST ${test} APPEND PROPERTY LABELS threads)
        endif()
    endforeach()
endforeach()
set_property(TEST scenario.s010_money_test APPEND PROPERTY LABELS threads)
foreach(process intake route create recover settle relay gateway)
    add_dependencies(threads oncepay-${process})
endforeach()
add_dependencies(threads oncepay oncepay-feed oncepay-psp-sim)
