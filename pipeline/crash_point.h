/*
 * pipeline/crash_point.h: named places where a test lets the process die or stop. Compiled in
 * only with ONCEPAY_CRASH_POINTS. ONCEPAY_CRASH_AT="name[:nth]" kills the process with SIGKILL
 * the nth time it gets there; ONCEPAY_STOP_AT="name[:nth]" raises SIGSTOP there, once.
 */
#ifndef ONCEPAY_PIPELINE_CRASH_POINT_H
#define ONCEPAY_PIPELINE_CRASH_POINT_H

#include "pipeline/base.h"

#ifdef ONCEPAY_CRASH_POINTS
void crash_point(const char *name);
#define CRASH_POINT(name) crash_point(name)
#else
#define CRASH_POINT(name) ((void)0)
#endif

#endif
