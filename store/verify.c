/* store/verify.c: see verify.h. */
#include "store/verify.h"

struct check {
    enum statement statement;
    const char *invariant;
    const char *title;
    bool takes_stuck_after;
};

static const struct check CHECKS[VERIFY_CHECK_COUNT] = {
    { STMT_VERIFY_I01, "I1",
      "every live payment is what its target's pointer names, and the reverse", false },
    { STMT_VERIFY_I02, "I2", "one payment per out_trade_no, one operation per out no", false },
    { STMT_VERIFY_I03, "I3",
      "a provider key is one attempt's; a step has one hash, that of its bytes", false },
    { STMT_VERIFY_I04, "I4", "a further attempt exists only after proof that the one before failed",
      false },
    { STMT_VERIFY_I05, "I5", "only listed transitions, and the guards stand", false },
    { STMT_VERIFY_I06, "I6", "every end cites evidence that proves it", false },
    { STMT_VERIFY_I07, "I7", "what only grows has not been changed: the chains recompute", false },
    { STMT_VERIFY_I08, "I8", "one history row per version, and the last one is the row", false },
    { STMT_VERIFY_I10, "I10", "one success per target and payment, or a case for each further one",
      false },
    { STMT_VERIFY_I11, "I11", "no sum is beyond its bound", false },
    { STMT_VERIFY_I12, "I12", "amount, currency, merchant, account, key and hash do not change",
      false },
    { STMT_VERIFY_I13, "I13", "every accepted request is final or somebody has it in hand", true },
    { STMT_VERIFY_I16, "I16", "maker and checker are two people", false },
    { STMT_VERIFY_I17, "I17", "each operation's end is applied once", false },
    { STMT_VERIFY_I18, "I18", "the states of payment and create agree", false },
    { STMT_VERIFY_I19, "I19", "what follows a create goes to its account", false },
    { STMT_VERIFY_I21, "I21", "one open task per attempt, one webhook per event", false },
    { STMT_VERIFY_PARTITIONS, "partitions", "no row lies in a default partition", false },
};

static const char *copy_text(const struct store_result *result, size_t row, int column,
                             struct arena *arena)
{
    const char *text = result_text(result, row, column);
    return text == NULL ? "" : arena_copy(arena, text, strlen(text));
}

static enum status run_check(struct store *store, const struct check *check, int64_t stuck_after_s,
                             struct arena *arena, struct verify_result *out)
{
    struct sql_call call;
    struct store_result result = { 0 };
    sql_call_begin(&call, check->statement, arena);
    if (check->takes_stuck_after) sql_bind_int8(&call, stuck_after_s);
    TRY(store_run(store, &call, &result));
    *out = (struct verify_result){ .invariant = check->invariant, .title = check->title };
    out->shown_count = result_rows(&result);
    INVARIANT(out->shown_count <= VERIFY_SHOWN_MAX);
    if (out->shown_count > 0) out->offender_count = result_int8(&result, 0, 0);
    for (size_t i = 0; i < out->shown_count; i++) {
        out->offenders[i].id = copy_text(&result, i, 1, arena);
        out->offenders[i].what = copy_text(&result, i, 2, arena);
    }
    store_result_clear(&result);
    return STATUS_OK;
}

enum status verify_run(struct store *store, int64_t stuck_after_s, struct arena *arena,
                       struct verify_result out_results[VERIFY_CHECK_COUNT])
{
    for (size_t i = 0; i < VERIFY_CHECK_COUNT; i++) {
        TRY(run_check(store, &CHECKS[i], stuck_after_s, arena, &out_results[i]));
    }
    return STATUS_OK;
}
