# The protocol as a model, searched exhaustively (model/payment.pml). Each broken_ test leaves one
# rule out and passes only if spin finds the harm that this does.
find_program(SPIN spin REQUIRED)
function(oncepay_model prefix)
    foreach(name IN LISTS ARGN)
        add_test(NAME model.${prefix}${name}
            COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/model/run.py
                --spin ${SPIN} --cc ${CMAKE_C_COMPILER} ${name})
        set_tests_properties(model.${prefix}${name} PROPERTIES LABELS model TIMEOUT 240
            ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
    endforeach()
endfunction()
oncepay_model("" failover failover_successes_only one_account one_account_successes_only two_settle
    two_payments two_payments_successes_only payable_decline)
oncepay_model(broken_ no_fence no_version no_send_by timeout_as_failure failover_from_unknown
    apply_end_twice new_key_on_replay replay_after_retention no_late_window window_at_judgement
    claim_unseen pointer_without_version)
