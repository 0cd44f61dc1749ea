/*
 * pipeline/clock.c: see clock.h. The calendar is our own: timegm and strptime are not POSIX 2008.
 */
#include "pipeline/clock.h"

#include <time.h>

static int64_t clock_read_us(clockid_t id)
{
    struct timespec now;
    INVARIANT(clock_gettime(id, &now) == 0);
    return (int64_t)now.tv_sec * CLOCK_SECOND_US + now.tv_nsec / 1000;
}

int64_t clock_real_us(void)
{
    return clock_read_us(CLOCK_REALTIME);
}

int64_t clock_monotonic_us(void)
{
    return clock_read_us(CLOCK_MONOTONIC);
}

#define DAY_US (INT64_C(86400) * CLOCK_SECOND_US)
#define YEAR_9999_END_US (INT64_C(253402300800) * CLOCK_SECOND_US)

/* Days since 1970-01-01 of a Gregorian date, counted in 400-year eras that begin on 1 March. */
static int64_t days_of_date(int year, int month, int day)
{
    const int64_t shifted = month <= 2 ? year - 1 : year;
    const int64_t era = shifted / 400;
    const int64_t year_of_era = shifted - era * 400;
    const int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    const int64_t day_of_era =
        year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static void date_of_days(int64_t days, int *out_year, int *out_month, int *out_day)
{
    const int64_t shifted = days + 719468;
    const int64_t era = shifted / 146097;
    const int64_t day_of_era = shifted - era * 146097;
    const int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    const int64_t day_of_year =
        day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const int64_t month_from_march = (5 * day_of_year + 2) / 153;
    *out_day = (int)(day_of_year - (153 * month_from_march + 2) / 5 + 1);
    *out_month = (int)(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
    *out_year = (int)(year_of_era + era * 400 + (*out_month <= 2 ? 1 : 0));
}

char *clock_format(int64_t real_us, char text[CLOCK_TEXT_SIZE])
{
    INVARIANT(real_us >= 0 && real_us < YEAR_9999_END_US);
    const int64_t in_day_us = real_us % DAY_US;
    const int second_of_day = (int)(in_day_us / CLOCK_SECOND_US);
    int year, month, day;
    date_of_days(real_us / DAY_US, &year, &month, &day);
    const int length = snprintf(text, CLOCK_TEXT_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", year,
                                month, day, second_of_day / 3600, second_of_day / 60 % 60,
                                second_of_day % 60, (int)(in_day_us % CLOCK_SECOND_US));
    INVARIANT(length > 0 && length < CLOCK_TEXT_SIZE);
    return text;
}

/* Reads exactly count digits. */
static bool take_digits(const char **cursor, int count, int *out)
{
    int value = 0;
    for (int i = 0; i < count; i++) {
        const char c = (*cursor)[i];
        if (c < '0' || c > '9') return false;
        value = value * 10 + (c - '0');
    }
    *cursor += count;
    *out = value;
    return true;
}

static bool take(const char **cursor, const char *accepted)
{
    if (**cursor == '\0' || strchr(accepted, **cursor) == NULL) return false;
    (*cursor)++;
    return true;
}

static bool take_date(const char **cursor, int64_t *out_days)
{
    static const int DAYS[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    int year, month, day;
    if (!take_digits(cursor, 4, &year) || !take(cursor, "-")) return false;
    if (!take_digits(cursor, 2, &month) || !take(cursor, "-")) return false;
    if (!take_digits(cursor, 2, &day)) return false;
    if (year < 1970 || month < 1 || month > 12) return false;
    const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    const int days_in_month = DAYS[month - 1] + (month == 2 && is_leap ? 1 : 0);
    if (day < 1 || day > days_in_month) return false;
    *out_days = days_of_date(year, month, day);
    return true;
}

/* A leap second counts as the second that follows. Fractions beyond microseconds are cut. */
static bool take_time(const char **cursor, int64_t *out_us)
{
    int hour, minute, second;
    if (!take_digits(cursor, 2, &hour) || !take(cursor, ":")) return false;
    if (!take_digits(cursor, 2, &minute) || !take(cursor, ":")) return false;
    if (!take_digits(cursor, 2, &second)) return false;
    if (hour > 23 || minute > 59 || second > 60) return false;
    int64_t us = ((int64_t)hour * 3600 + minute * 60 + second) * CLOCK_SECOND_US;
    if (take(cursor, ".")) {
        int digit;
        int64_t unit_us = CLOCK_SECOND_US / 10;
        if (!take_digits(cursor, 1, &digit)) return false;
        do {
            us += digit * unit_us;
            unit_us /= 10;
        } while (take_digits(cursor, 1, &digit));
    }
    *out_us = us;
    return true;
}

static bool take_offset(const char **cursor, int64_t *out_us)
{
    if (take(cursor, "Zz")) {
        *out_us = 0;
        return true;
    }
    const int sign = **cursor == '-' ? -1 : 1;
    int hour, minute;
    if (!take(cursor, "+-") || !take_digits(cursor, 2, &hour) || !take(cursor, ":")) return false;
    if (!take_digits(cursor, 2, &minute) || hour > 23 || minute > 59) return false;
    *out_us = sign * ((int64_t)hour * 3600 + minute * 60) * CLOCK_SECOND_US;
    return true;
}

bool clock_parse(const char *text, int64_t *out_real_us)
{
    const char *cursor = text;
    int64_t days, time_us, offset_us;
    if (!take_date(&cursor, &days) || !take(&cursor, "Tt ")) return false;
    if (!take_time(&cursor, &time_us) || !take_offset(&cursor, &offset_us)) return false;
    const int64_t real_us = days * DAY_US + time_us - offset_us;
    if (*cursor != '\0' || real_us < 0 || real_us >= YEAR_9999_END_US) return false;
    *out_real_us = real_us;
    return true;
}
