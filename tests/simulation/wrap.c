/*
 * tests/simulation/wrap.c: what the real code draws from the machine comes from the world: ids,
 * jitter and time. The linker sends their calls here (--wrap, simulation.cmake).
 */
#include "tests/simulation/world.h"

struct uuid __wrap_uuid_new(void);
int64_t __wrap_stage_jitter_ms(int64_t ms);
int64_t __wrap_stage_spread_ms(int64_t ms);
int64_t __wrap_clock_real_us(void);
int64_t __wrap_clock_monotonic_us(void);

struct uuid __wrap_uuid_new(void)
{
    return world_id(world_current());
}

int64_t __wrap_stage_jitter_ms(int64_t ms)
{
    return ms;
}

int64_t __wrap_stage_spread_ms(int64_t ms)
{
    struct world *world = world_current();
    const int64_t fifth = ms / 5;
    return ms - fifth +
           (int64_t)(choice_draw(&world->choices, CHOICE_SPREAD, 62) % (uint64_t)(2 * fifth + 1));
}

int64_t __wrap_clock_real_us(void)
{
    return world_current()->now_us;
}

int64_t __wrap_clock_monotonic_us(void)
{
    return world_current()->now_us;
}
