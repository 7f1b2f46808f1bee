/* Reading of messages: their sections, and the few fields that decide their way.
 *
 * This file doesn't use Proton. Every read of a peer's bytes is bounds-checked, as they can't be
 * trusted. Nothing is allocated, and nothing is kept between calls.
 *
 * Sections of a message and their encoding: AMQP 1.0 part 3, section 2; types: part 1.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* cdef:begin */
/* The kind of destination that each of `count` messages names: 0 queue, 1 topic, 2 temporary queue,
 * 3 temporary topic, 255 if it names no known one. */
void pump_destinations(const char *blob, const uint32_t *lengths, uint32_t count, uint8_t *out);
/* A hash of each message's properties.group-id, which is never 0; 0 where it has none, or an empty
 * one. Message i lies from offsets[i] to offsets[i + 1]. Returns how many have one. */
uint32_t pump_groups(const char *blob, const int32_t *offsets, uint32_t count, uint64_t *out);
/* Of each message the hash of its group-id, else that of the id_size[i] bytes at id_at[i] in it, else
 * 0. The log of a message of a partitioned topic depends on this hash, so it must never change. */
void pump_keys(const char *blob, const int32_t *offsets, const uint32_t *id_at,
               const uint32_t *id_size, uint32_t count, uint64_t *out);
/* offsets[0] = 0, offsets[i+1] = offsets[i] + lengths[i]; whether any of the messages has a group. */
int pump_batch(const char *blob, const uint32_t *lengths, uint32_t count, int32_t *offsets);
/* cdef:end */

enum { NOT_A_SECTION = 0, FIRST_SECTION = HEADER, LAST_SECTION = FOOTER };

static uint32_t be32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Where the content of the value at `at` begins: behind its size, if it has one; else `at`. */
static inline size_t content_of(uint8_t code, size_t at) {
  return size_bytes[code >> 4] ? at + 1 + size_bytes[code >> 4] : at;
}

/* The size of such a value. */
static inline size_t content_size(const uint8_t *m, size_t at) {
  return size_bytes[m[at] >> 4] == 1 ? m[at + 1] : be32(m + at + 1);
}

static inline int is_null(const uint8_t *m, size_t at) { return m[at] == F_NULL; }
static inline int is_string(const uint8_t *m, size_t at) {
  return m[at] == F_STR8 || m[at] == F_STR32;
}

/* The end of the value that begins at `at`, or 0 if it is not inside `size`. */
static size_t value_end(const uint8_t *m, size_t size, size_t at) {
  size_t end;
  while (at < size && m[at] == F_DESCRIBED) { /* descriptor, then value */
    at++;
    if (at >= size || m[at] == F_DESCRIBED) return 0;
    at = value_end(m, size, at);
    if (!at) return 0;
  }
  if (at >= size) return 0;
  unsigned high = m[at] >> 4;
  if (fixed_bytes[high]) {
    end = at + fixed_bytes[high];
  } else {
    size_t start = content_of(m[at], at);
    if (start == at || start > size) return 0;
    end = start + content_size(m, at);
  }
  return end <= size ? end : 0;
}

/* The section whose descriptor is this symbol. */
static int section_named(const char *name, size_t size) {
  for (int i = FIRST_SECTION; i <= LAST_SECTION; i++)
    if (strlen(section_names[i - FIRST_SECTION]) == size &&
        !memcmp(section_names[i - FIRST_SECTION], name, size))
      return i;
  return NOT_A_SECTION;
}

/* The section code at `at` and where its value begins. */
static int section(const uint8_t *m, size_t size, size_t at, size_t *value) {
  if (at + 3 > size || m[at] != F_DESCRIBED) return NOT_A_SECTION;
  int code = NOT_A_SECTION;
  if (m[at + 1] == F_SMALLULONG) {
    code = m[at + 2];
    *value = at + 3;
  } else if (m[at + 1] == F_ULONG && at + 10 <= size && be32(m + at + 2) == 0) {
    uint32_t low = be32(m + at + 6);
    code = low <= LAST_SECTION ? (int)low : NOT_A_SECTION;
    *value = at + 10;
  } else if (m[at + 1] == F_SYM8 && at + 3 + m[at + 2] <= size) {
    code = section_named((const char *)m + at + 3, m[at + 2]);
    *value = at + 3 + m[at + 2];
  }
  return code >= FIRST_SECTION && code <= LAST_SECTION ? code : NOT_A_SECTION;
}

/* Where the first element of a container begins and how many it has, by the narrow and the wide
 * constructor of its kind; 0 if it is none. */
static inline size_t elements(const uint8_t *m, size_t end, size_t at, uint8_t narrow, uint8_t wide,
                              uint32_t *count) {
  if (m[at] == narrow && at + 3 <= end) { *count = m[at + 2]; return at + 3; }
  if (m[at] == wide && at + 9 <= end) { *count = be32(m + at + 5); return at + 9; }
  return 0;
}

/* Where the first field of a list begins and how many it has; 0 if it is not a list. */
static size_t list_fields(const uint8_t *m, size_t end, size_t at, uint32_t *count) {
  *count = 0;
  if (m[at] == F_LIST0) return at + 1;
  return elements(m, end, at, F_LIST8, F_LIST32, count);
}

static uint64_t be64(const uint8_t *p) { return (uint64_t)be32(p) << 32 | be32(p + 4); }

/* Where the first key of a map begins and how many keys and values it has; 0 if it is not a map. */
static size_t map_entries(const uint8_t *m, size_t end, size_t at, uint32_t *count) {
  return elements(m, end, at, F_MAP8, F_MAP32, count);
}

static uint32_t uint_value(const uint8_t *m, size_t at, uint32_t otherwise) {
  if (m[at] == F_SMALLUINT) return m[at + 1];
  if (m[at] == F_UINT) return be32(m + at + 1);
  if (m[at] == F_UINT0) return 0;
  return otherwise;
}

/* The bytes of a uint, 0 if it is none. */
static size_t uint_size(uint8_t code) {
  return code == F_UINT0 || code == F_SMALLUINT || code == F_UINT ? fixed_bytes[code >> 4] : 0;
}

/* Whether the value, which is known to be whole, is an integer of any type or a timestamp; what no
 * int64 can hold becomes the largest. */
static int integer(const uint8_t *m, size_t at, int64_t *out) {
  const uint8_t *v = m + at + 1;
  switch (m[at]) {
    case F_UINT0: case F_ULONG0: *out = 0; return 1;
    case F_UBYTE: case F_SMALLUINT: case F_SMALLULONG: *out = v[0]; return 1;
    case F_BYTE: case F_SMALLINT: case F_SMALLLONG: *out = (int8_t)v[0]; return 1;
    case F_USHORT: *out = v[0] << 8 | v[1]; return 1;
    case F_SHORT: *out = (int16_t)(v[0] << 8 | v[1]); return 1;
    case F_UINT: *out = be32(v); return 1;
    case F_INT: *out = (int32_t)be32(v); return 1;
    case F_ULONG: *out = be64(v) > INT64_MAX ? INT64_MAX : (int64_t)be64(v); return 1;
    case F_LONG: case F_TIMESTAMP: *out = (int64_t)be64(v); return 1;
  }
  return 0;
}

typedef struct { int present, durable, first_acquirer; uint32_t priority, ttl, delivery_count; } header_t;

static int is_true(const uint8_t *m, size_t at) {
  return m[at] == F_TRUE || (m[at] == F_BOOLEAN && m[at + 1] == 1);
}

/* Read a header section's list; 0 if it is broken. */
static int read_header(const uint8_t *m, size_t end, size_t at, header_t *h) {
  uint32_t count;
  size_t field = list_fields(m, end, at, &count);
  if (!field) return 0;
  h->present = 1;
  for (uint32_t i = 0; i < count && i < HEADER_FIELDS; i++) {
    size_t next = value_end(m, end, field);
    if (!next) return 0;
    switch (i) {
      case HEADER_DURABLE: h->durable = is_true(m, field); break;
      case HEADER_PRIORITY: if (m[field] == F_UBYTE) h->priority = m[field + 1]; break;
      case HEADER_TTL: h->ttl = uint_value(m, field, 0); break;
      case HEADER_FIRST_ACQUIRER: h->first_acquirer = is_true(m, field); break;
      case HEADER_DELIVERY_COUNT: h->delivery_count = uint_value(m, field, 0); break;
    }
    field = next;
  }
  return 1;
}

/* A value's place in its message; `size` is 0 where there is none. */
typedef struct { uint32_t at, size; } place_t;

/* Fields of properties: message-id with its constructor, the text of `to` if it is a string, and
 * absolute-expiry-time (milliseconds, 0 if there is none). */
typedef struct { place_t id, to; int64_t expiry; } properties_t;

/* Read a properties section's list; 0 if it is broken, as far as the address. */
static int read_properties(const uint8_t *m, size_t end, size_t at, properties_t *p) {
  uint32_t count;
  size_t field = list_fields(m, end, at, &count), next;
  if (!field) return 0;
  uint32_t last =
      count > PROPERTIES_ABSOLUTE_EXPIRY_TIME ? PROPERTIES_ABSOLUTE_EXPIRY_TIME : PROPERTIES_TO;
  for (uint32_t i = 0; i < count && i <= last; i++, field = next) {
    if (!(next = value_end(m, end, field))) return i > PROPERTIES_TO;
    switch (i) {
      case PROPERTIES_MESSAGE_ID:
        if (!is_null(m, field)) p->id = (place_t){(uint32_t)field, (uint32_t)(next - field)};
        break;
      case PROPERTIES_TO:
        if (is_string(m, field))
          p->to = (place_t){(uint32_t)content_of(m[field], field), (uint32_t)content_size(m, field)};
        break;
      case PROPERTIES_ABSOLUTE_EXPIRY_TIME:
        if (m[field] == F_TIMESTAMP) integer(m, field, &p->expiry);
        break;
    }
  }
  return 1;
}

typedef struct { size_t size; const char *start; } text_t;

/* The bytes of a string or symbol that is known to be whole. */
static text_t text(const uint8_t *m, size_t at) {
  return (text_t){content_size(m, at), (const char *)m + content_of(m[at], at)};
}

static inline int is_text(const uint8_t *m, size_t at) {
  return is_string(m, at) || m[at] == F_SYM8 || m[at] == F_SYM32;
}

static int is_symbol(const uint8_t *m, size_t at, const char *name) {
  if (m[at] != F_SYM8 && m[at] != F_SYM32) return 0;
  text_t t = text(m, at);
  return t.size == strlen(name) && !memcmp(t.start, name, t.size);
}

/* Values of message annotations: the time of delivery, or the delay (milliseconds, 0 if there is
 * none), and the id that replaces message-id. */
typedef struct { int64_t time, delay; place_t id; } annotations_t;

/* Read message annotations; incomplete ones count as empty. */
static annotations_t read_annotations(const uint8_t *m, size_t end, size_t at) {
  annotations_t said = {0};
  uint32_t count;
  size_t key = map_entries(m, end, at, &count);
  if (!key) return said;
  for (; count >= 2; count -= 2) {
    size_t value = value_end(m, end, key), next = value ? value_end(m, end, value) : 0;
    if (!next) return (annotations_t){0};
    if (is_symbol(m, key, "x-opt-delivery-time")) integer(m, value, &said.time);
    else if (is_symbol(m, key, "x-opt-delivery-delay")) integer(m, value, &said.delay);
    else if (is_symbol(m, key, "x-opt-duplicate-id") && !is_null(m, value))
      said.id = (place_t){(uint32_t)value, (uint32_t)(next - value)};
    key = next;
  }
  return count || key != end ? (annotations_t){0} : said;
}

/* Times are microseconds since the epoch, of the years 1970 to 9999. */
static const int64_t LAST_TIME = 253402300799999999;

static int64_t after(int64_t now, int64_t ms) {
  return ms > (LAST_TIME - now) / 1000 ? LAST_TIME : now + ms * 1000;
}

/* The time at which a message expires: the earlier one by its header and its properties; 0: it never
 * expires, or not before the year 10000. A time before 1970 has passed like any other. */
static int64_t expiry_of(uint32_t ttl, int64_t absolute, int64_t now) {
  int64_t first = LAST_TIME;
  if (ttl) first = after(now, ttl);
  if (absolute) {
    int64_t at = absolute < 0 ? 1 : after(0, absolute);
    if (at < first) first = at;
  }
  return first == LAST_TIME ? 0 : first;
}

/* The time before which a message isn't delivered: its time of delivery, else now and its delay; 0: at
 * once. */
static int64_t delivery_of(const annotations_t *said, int64_t now) {
  int64_t at = 0;
  if (said->time) at = said->time < 0 ? 0 : after(0, said->time);
  else if (said->delay > 0) at = after(now, said->delay);
  return at > now ? at : 0;
}

enum { QUEUE, TOPIC, TEMPORARY, UNKNOWN = 255 };

/* The kind that a value names: a byte, or the older words "queue" and "topic", with "temporary"
 * before or after them, between commas. */
static uint8_t kind_named(const uint8_t *m, size_t at) {
  if (m[at] == F_BYTE) return m[at + 1] <= TOPIC + TEMPORARY ? m[at + 1] : UNKNOWN;
  if (!is_text(m, at)) return UNKNOWN;
  static const char *const words[] = {"queue", "topic", "temporary"};
  int found[3] = {0, 0, 0};
  text_t t = text(m, at);
  const char *end = t.start + t.size;
  for (const char *word = t.start; word < end;) {
    const char *comma = memchr(word, ',', (size_t)(end - word));
    const char *next = comma ? comma + 1 : end, *stop = comma ? comma : end;
    while (word < stop && *word == ' ') word++;
    while (word < stop && stop[-1] == ' ') stop--;
    for (int i = 0; i < 3; i++)
      if (strlen(words[i]) == (size_t)(stop - word) && !memcmp(words[i], word, (size_t)(stop - word)))
        found[i] = 1;
    word = next;
  }
  if (!found[QUEUE] && !found[TOPIC]) return UNKNOWN;
  return (uint8_t)((found[QUEUE] ? QUEUE : TOPIC) + (found[TEMPORARY] ? TEMPORARY : 0));
}

/* The kind of destination in message annotations: `x-opt-jms-dest`, or the older `x-opt-to-type`. */
static uint8_t kind_annotated(const uint8_t *m, size_t end, size_t at) {
  uint32_t count;
  uint8_t kind = UNKNOWN, older = UNKNOWN;
  size_t key = map_entries(m, end, at, &count);
  if (!key) return UNKNOWN;
  for (; count >= 2; count -= 2) {
    size_t value = value_end(m, end, key), next = value ? value_end(m, end, value) : 0;
    if (!next) return UNKNOWN;
    if (is_symbol(m, key, "x-opt-jms-dest")) kind = kind_named(m, value);
    else if (is_symbol(m, key, "x-opt-to-type")) older = kind_named(m, value);
    key = next;
  }
  if (count || key != end) return UNKNOWN;
  return kind == UNKNOWN ? older : kind;
}

static uint8_t destination(const uint8_t *m, size_t size) {
  size_t value;
  for (size_t at = 0; at < size;) {
    int code = section(m, size, at, &value);
    size_t end = code && code <= MESSAGE_ANNOTATIONS ? value_end(m, size, value) : 0;
    if (!end) return UNKNOWN;
    if (code == MESSAGE_ANNOTATIONS) return kind_annotated(m, end, value);
    at = end;
  }
  return UNKNOWN;
}

void pump_destinations(const char *blob, const uint32_t *lengths, uint32_t count, uint8_t *out) {
  PyThreadState *others = let_others(count, LONG_MESSAGES);
  for (uint32_t i = 0; i < count; blob += lengths[i++])
    out[i] = destination((const uint8_t *)blob, lengths[i]);
  take_back(others);
}

/* A hash of `size` bytes that is never 0. On the disk of a lake (pump_keys): never another one. */
static uint64_t hash(const char *bytes, size_t size) {
  const uint64_t prime = 0x9e3779b97f4a7c15;
  uint64_t h = size * prime;
  for (uint64_t word; size; ) {
    size_t n = size < sizeof word ? size : sizeof word;
    word = 0;
    memcpy(&word, bytes, n);
    h = (h ^ word) * prime;
    h ^= h >> 32;
    bytes += n;
    size -= n;
  }
  return h ? h : 1;
}

/* The hash of the group-id in a properties section's list; 0 if there is none. */
static uint64_t group_in(const uint8_t *m, size_t end, size_t at) {
  uint32_t count;
  size_t field = list_fields(m, end, at, &count);
  if (!field || count <= PROPERTIES_GROUP_ID) return 0;
  for (int i = 0; i < PROPERTIES_GROUP_ID; i++)
    if (!(field = value_end(m, end, field))) return 0;
  if (!value_end(m, end, field) || !is_string(m, field)) return 0;
  text_t id = text(m, field);
  return id.size ? hash(id.start, id.size) : 0;
}

static uint64_t group_of(const uint8_t *m, size_t size) {
  size_t value;
  for (size_t at = 0; at < size;) {
    int code = section(m, size, at, &value);
    size_t end = code && code <= PROPERTIES ? value_end(m, size, value) : 0;
    if (!end) return 0;
    if (code == PROPERTIES) return group_in(m, end, value);
    at = end;
  }
  return 0;
}

uint32_t pump_groups(const char *blob, const int32_t *offsets, uint32_t count, uint64_t *out) {
  uint32_t found = 0;
  PyThreadState *others = let_others(count, LONG_MESSAGES);
  for (uint32_t i = 0; i < count; i++) {
    const uint8_t *m = (const uint8_t *)blob + offsets[i];
    found += (out[i] = group_of(m, (size_t)(offsets[i + 1] - offsets[i]))) != 0;
  }
  take_back(others);
  return found;
}

void pump_keys(const char *blob, const int32_t *offsets, const uint32_t *id_at,
               const uint32_t *id_size, uint32_t count, uint64_t *out) {
  PyThreadState *others = let_others(count, LONG_MESSAGES);
  for (uint32_t i = 0; i < count; i++) {
    const char *m = blob + offsets[i];
    out[i] = group_of((const uint8_t *)m, (size_t)(offsets[i + 1] - offsets[i]));
    if (!out[i] && id_size[i]) out[i] = hash(m + id_at[i], id_size[i]);
  }
  take_back(others);
}

int pump_batch(const char *blob, const uint32_t *lengths, uint32_t count, int32_t *offsets) {
  int grouped = 0;
  PyThreadState *others = let_others(count, LONG_MESSAGES);
  offsets[0] = 0;
  for (uint32_t i = 0; i < count; i++) {
    grouped = grouped || group_of((const uint8_t *)blob + offsets[i], lengths[i]);
    offsets[i + 1] = offsets[i] + (int32_t)lengths[i];
  }
  take_back(others);
  return grouped;
}

/* A header section for a further attempt: the publisher's fields, and our delivery count. */
static size_t write_header(uint8_t *out, const header_t *h, uint32_t delivery_count) {
  size_t n = 6;
  out[n++] = h->durable ? F_TRUE : F_FALSE;
  if (h->priority == 4) out[n++] = F_NULL;
  else { out[n++] = F_UBYTE; out[n++] = (uint8_t)h->priority; }
  const uint32_t numbers[2] = {h->ttl, delivery_count};
  for (int i = 0; i < 2; i++) {
    if (i) out[n++] = F_FALSE; /* first-acquirer: false */
    if (!i && !h->ttl) { out[n++] = F_NULL; continue; }
    out[n++] = F_UINT;
    for (int shift = 24; shift >= 0; shift -= 8) out[n++] = (uint8_t)(numbers[i] >> shift);
  }
  const uint8_t front[6] = {F_DESCRIBED, F_SMALLULONG, HEADER, F_LIST8, (uint8_t)(n - 5), HEADER_FIELDS};
  memcpy(out, front, sizeof front);
  return n;
}

/* Where the bare message begins: behind header and delivery annotations. */
static size_t bare_message(const uint8_t *m, size_t size, header_t *h, int *annotated) {
  size_t at = 0, value;
  for (int code; at < size && (code = section(m, size, at, &value)) &&
                 (code == HEADER || code == DELIVERY_ANNOTATIONS);) {
    size_t end = value_end(m, size, value);
    if (!end) break;
    if (code == HEADER) read_header(m, end, value, h);
    else *annotated = 1;
    at = end;
  }
  return at;
}
