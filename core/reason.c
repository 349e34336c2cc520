#include "core/reason.h"

#include <stdarg.h>
#include <stdio.h>

int reason_set(struct reason *why, int err, const char *format, ...)
{
    if (why) {
        va_list args;
        va_start(args, format);
        vsnprintf(why->text, sizeof why->text, format, args);
        va_end(args);
    }
    return -err;
}
