#include "core/utf8.h"

size_t utf8_sequence_bytes(const uint8_t *at, const uint8_t *end)
{
    uint8_t low = 0x80, high = 0xBF;
    size_t len;
    if (*at < 0x80)
        return 1;
    if (*at >= 0xC2 && *at <= 0xDF) {
        len = 2;
    } else if (*at >= 0xE0 && *at <= 0xEF) {
        len = 3;
        low = *at == 0xE0 ? 0xA0 : low;
        high = *at == 0xED ? 0x9F : high;
    } else if (*at >= 0xF0 && *at <= 0xF4) {
        len = 4;
        low = *at == 0xF0 ? 0x90 : low;
        high = *at == 0xF4 ? 0x8F : high;
    } else {
        return 0;
    }
    if ((size_t) (end - at) < len || at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++) {
        if (at[i] < 0x80 || at[i] > 0xBF)
            return 0;
    }
    return len;
}

bool utf8_is_valid(const uint8_t *text, size_t len)
{
    for (const uint8_t *end = text + len; text < end;) {
        size_t bytes = utf8_sequence_bytes(text, end);
        if (bytes == 0)
            return false;
        text += bytes;
    }
    return true;
}
