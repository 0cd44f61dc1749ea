# Sanitizers for the asan and tsan presets; the OpenSSF hardening set for everything else.
include(CheckPIESupported)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
check_pie_supported(LANGUAGES C)

if(ONCEPAY_SANITIZE)
    target_compile_options(oncepay_build INTERFACE -fsanitize=${ONCEPAY_SANITIZE}
        -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(oncepay_build INTERFACE -fsanitize=${ONCEPAY_SANITIZE})
    if(ONCEPAY_FUZZ) # the coverage that fuzzers steer by; programs that are none just ignore it
        target_compile_options(oncepay_build INTERFACE -fsanitize=fuzzer-no-link)
    endif()
else()
    foreach(flag
            -fstack-protector-strong        # canaries where there are arrays
            -fstack-clash-protection        # big frames cannot jump over the guard page
            -fcf-protection=full            # x86: indirect branches land where they may
            -fno-delete-null-pointer-checks # a check stays even if the optimiser knows better
            -ftrivial-auto-var-init=zero)   # gcc: what was forgotten is zero, not what lay there
        string(MAKE_C_IDENTIFIER "has${flag}" name)
        check_c_compiler_flag(${flag} ${name})
        if(${name})
            target_compile_options(oncepay_build INTERFACE ${flag})
        endif()
    endforeach()
    target_compile_options(oncepay_build INTERFACE
        "$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>")
    target_link_options(oncepay_build INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
endif()
