/*
 * tests/support/intake_scene.h: a fresh database, a store and producers' messages for one test of
 * intake, and how its answers and rows are looked at. For cmocka.
 */
#ifndef ONCEPAY_TESTS_SUPPORT_INTAKE_SCENE_H
#define ONCEPAY_TESTS_SUPPORT_INTAKE_SCENE_H

#include "tests/support/intake_messages.h"
#include "tests/support/pg_fixture.h"

struct scene {
    const char *url;
    struct store *store;
    struct intake_messages messages;
};

/* The server of the program. Group setup and teardown. */
extern struct pg_fixture *scene_fixture;
int scene_start(void **state);
int scene_stop(void **state);
/* A struct scene per test. */
int scene_open(void **state);
int scene_close(void **state);

#define SCENE(test) cmocka_unit_test_setup_teardown(test, scene_open, scene_close)

/* Adds request n (intake_messages_request). */
void scene_add(struct scene *scene, int n, const char *key);
/* Runs the batch; anything but STATUS_OK fails the test. */
void scene_run(struct scene *scene);

const struct intake_item *scene_item(const struct scene *scene, size_t index);
void scene_expect(const struct scene *scene, size_t index, enum intake_verdict verdict);
/* A member of the answer's body, as text. */
const char *scene_answer_member(struct scene *scene, size_t index, const char *name);
/* SELECT count(*) FROM … */
int64_t scene_count(const struct scene *scene, const char *from);

#endif
