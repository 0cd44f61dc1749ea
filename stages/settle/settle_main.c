/* stages/settle/settle_main.c: oncepay-settle: eats pay.settle.>, ends payments (design §1). */
#include "pipeline/clock.h"
#include "pipeline/subject.h"
#include "stages/psp_registry.h"
#include "stages/settle/settle_batch.h"
#include "stages/stage.h"

/* A stuck wait becomes a case at five times stuck_after (protocol I); a command gets as long. */
enum { GIVE_UP_FACTOR = 5 };

static enum status handle(struct stage *stage, void *self, struct stage_item *const *items,
                          size_t count, struct arena *arena)
{
    const struct settle *settle = self;
    struct settle_news news;
    TRY(settle_batch_run(settle, items, count, arena, &news));
    if (news.has_events) stage_announce_events(stage);
    for (size_t i = 0; i < news.command_count; i++) {
        char subject[SUBJECT_SIZE];
        stage_announce(stage, subject_settle(news.commands[i].payment, subject), news.commands[i]);
    }
    return STATUS_OK;
}

/* The accounts whose capability is known; the others' targets are held instead of freed. */
static size_t list_accounts(const struct config *config, struct settle_account *accounts)
{
    size_t count = 0;
    for (size_t i = 0; i < config->account_count; i++) {
        const struct psp_ops *psp = psp_registry_find(config->accounts[i].psp);
        if (psp != NULL)
            accounts[count++] = (struct settle_account){ config->accounts[i].id, &psp->capability };
    }
    return count;
}

int main(int argc, char **argv)
{
    struct stage stage;
    int exit_code = 0;
    if (!stage_open(&stage, "settle", argc, argv, &exit_code)) return exit_code;
    const struct config_timers *timers = &stage.config.timers;
    struct settle_account *accounts =
        memory_allocate((stage.config.account_count + 1) * sizeof *accounts);
    struct settle settle = {
        .store = stage.store,
        .actor = stage.actor,
        .accounts = accounts,
        .account_count = list_accounts(&stage.config, accounts),
        .call_limit_us = timers->call_limit_ms * CLOCK_MILLISECOND_US,
        .late_arrival_extra_s = timers->late_arrival_extra_s,
        .give_up_after_us = GIVE_UP_FACTOR * timers->stuck_after_s * CLOCK_SECOND_US,
    };
    const struct stage_work work = {
        .stream = "PAY_SETTLE",
        .durable = "settle",
        .has_commands = true,
        .limits = &stage.config.stages.settle,
        .handle = handle,
        .self = &settle,
    };
    exit_code = stage_run(&stage, &work);
    free(accounts);
    stage_close(&stage);
    return exit_code;
}
