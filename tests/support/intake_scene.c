/* tests/support/intake_scene.c: see intake_scene.h. */
#include "tests/support/intake_scene.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct pg_fixture *scene_fixture;

int scene_start(void **state)
{
    (void)state;
    scene_fixture = pg_fixture_start();
    return 0;
}

int scene_stop(void **state)
{
    (void)state;
    pg_fixture_stop(scene_fixture);
    return 0;
}

int scene_open(void **state)
{
    struct scene *scene = memory_allocate(sizeof *scene);
    scene->url = pg_fixture_database(scene_fixture);
    scene->store = pg_fixture_store(scene->url);
    intake_messages_init(&scene->messages);
    *state = scene;
    return 0;
}

int scene_close(void **state)
{
    struct scene *scene = *state;
    store_destroy(scene->store);
    intake_messages_finish(&scene->messages);
    free(scene);
    return 0;
}

void scene_run(struct scene *scene)
{
    const enum status status = intake_messages_run(&scene->messages, scene->store);
    if (status != STATUS_OK) print_message("%s\n", store_last_error(scene->store)->message);
    assert_string_equal(status_name(status), status_name(STATUS_OK));
}

const struct intake_item *scene_item(const struct scene *scene, size_t index)
{
    return &scene->messages.batch.items[index];
}

void scene_expect(const struct scene *scene, size_t index, enum intake_verdict verdict)
{
    const struct intake_item *item = scene_item(scene, index);
    assert_true(item->is_valid);
    assert_false(item->is_twin);
    assert_string_equal(intake_verdict_name(item->decision.verdict), intake_verdict_name(verdict));
}

const char *scene_answer_member(struct scene *scene, size_t index, const char *name)
{
    struct value body;
    const struct intake_item *item = scene_item(scene, index);
    assert_int_equal(
        value_read(item->envelope.content, item->answer.body, &scene->messages.arena, &body, NULL),
        STATUS_OK);
    const struct value *value = value_find(&body, name);
    assert_non_null(value);
    if (value->kind == VALUE_TEXT) return value_text(value);
    return (const char *)value_write_json(value, &scene->messages.arena).data;
}

int64_t scene_count(const struct scene *scene, const char *from)
{
    char sql[400];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", from);
    return pg_fixture_number(scene->url, sql);
}

void scene_add(struct scene *scene, int n, const char *key)
{
    const struct pay_request request = intake_messages_request(&scene->messages, n);
    (void)intake_messages_add(&scene->messages, &request, key);
}
