/* Search for messages whose trace is sampled: W3C Trace Context, level 1, in message annotations or
 * application properties. Behind `message.c` and `pump.c`, whose functions it uses.
 *
 * `pipeline/tracing/trace_context.py` is the reference for this file. Every read of a peer's bytes is
 * bounds-checked. The search takes a few steps for each section and property of a message, so that
 * Python has work only for the few messages whose trace is sampled. */

/* cdef:begin */
/* A message whose trace is sampled: its sequence, its bytes, and the places in the blob of its
 * traceparent (55 bytes), its tracestate and its message-id with the constructor; a size of 0:
 * there is none. */
typedef struct {
  uint64_t sequence;
  uint32_t size, parent_at, state_at, state_size, id_at, id_size;
} pump_traced;
/* Look at a run of a batch's messages, both as pump_send has them. The first `room` that are sampled
 * go to `out`; returns how many there are, or -1 if a message isn't there. */
int64_t pump_find_traced(const char *blob, const int32_t *offsets, uint64_t batch_first,
                         uint64_t batch_count, const uint64_t *batch_sequences, uint64_t first,
                         uint64_t step, uint64_t count, const uint64_t *sequences,
                         pump_traced *out, uint64_t room);
/* cdef:end */

enum {
  PARENT_BYTES = 55,          /* version 00: 00-<32>-<16>-<2> */
  STATE_BYTES_MAX = 512,      /* that each system must pass on; a longer one is left out */
  TRACED_ELEMENTS_MAX = 1024, /* keys and values of a section that are looked at */
};

enum { NOT_SAID, NOT_SAMPLED, SAMPLED };

static int hexadecimal(const uint8_t *text, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f'))) return 0;
  return 1;
}

static int all_zeros(const uint8_t *text, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (text[i] != '0') return 0;
  return 1;
}

/* What a traceparent says; one that isn't right says nothing. Where nothing else is asked (`last`)
 * most are passed over by their flags alone. */
static int sampled(const uint8_t *text, size_t size, int last) {
  if (size < PARENT_BYTES) return NOT_SAID;
  int low = text[54] <= '9' ? text[54] - '0' : text[54] - 'a' + 10;
  if (last && !(low & 1)) return NOT_SAMPLED;
  if (text[2] != '-' || text[35] != '-' || text[52] != '-') return NOT_SAID;
  if (!hexadecimal(text, 2) || !hexadecimal(text + 3, 32) || !hexadecimal(text + 36, 16) ||
      !hexadecimal(text + 53, 2))
    return NOT_SAID;
  if (text[0] == 'f' && text[1] == 'f') return NOT_SAID;
  if (size > PARENT_BYTES && (all_zeros(text, 2) || text[PARENT_BYTES] != '-')) return NOT_SAID;
  if (all_zeros(text + 3, 32) || all_zeros(text + 36, 16)) return NOT_SAID;
  return low & 1 ? SAMPLED : NOT_SAMPLED;
}

static int is_named(const uint8_t *m, size_t at, const char *name, size_t size) {
  if (!is_text(m, at) || content_size(m, at) != size) return 0;
  return !memcmp(m + content_of(m[at], at), name, size);
}

/* Read the trace context of a map whose section ends at `end`. */
static int read_trace(const uint8_t *m, size_t end, size_t at, int last, pump_traced *found) {
  uint32_t count;
  int said = NOT_SAID;
  size_t key = map_entries(m, end, at, &count), value, next;
  if (!key || count % 2) return NOT_SAID;
  if (count > TRACED_ELEMENTS_MAX) count = TRACED_ELEMENTS_MAX;
  for (found->state_size = 0; count; count -= 2, key = next) {
    if (!(value = value_end(m, end, key)) || !(next = value_end(m, end, value))) return NOT_SAID;
    if (!is_text(m, value)) continue;
    size_t start = content_of(m[value], value), size = content_size(m, value);
    if (!said && is_named(m, key, "traceparent", 11)) {
      said = sampled(m + start, size, last);
      found->parent_at = (uint32_t)start;
    } else if (size <= STATE_BYTES_MAX && is_named(m, key, "tracestate", 10)) {
      found->state_at = (uint32_t)start;
      found->state_size = (uint32_t)size;
    }
  }
  return said;
}

/* Whether a message's trace is sampled. Annotations come first: an intermediary that passes a message
 * on may only change them. */
static int traced(const uint8_t *m, size_t size, pump_traced *found) {
  size_t value, properties = 0, properties_end = 0;
  int said = NOT_SAID;
  for (size_t at = 0, end; at < size && !said; at = end) {
    int code = section(m, size, at, &value);
    if (!code || code > APPLICATION_PROPERTIES || !(end = value_end(m, size, value))) break;
    if (code == PROPERTIES) { properties = value; properties_end = end; }
    else if (code == MESSAGE_ANNOTATIONS || code == APPLICATION_PROPERTIES)
      said = read_trace(m, end, value, code == APPLICATION_PROPERTIES, found);
    /* The message-id stands behind the annotations. */
    if (said == SAMPLED && code == MESSAGE_ANNOTATIONS && end < size &&
        section(m, size, end, &value) == PROPERTIES) {
      properties = value;
      properties_end = value_end(m, size, value);
    }
  }
  if (said != SAMPLED) return 0;
  properties_t known = {0};
  if (properties_end) read_properties(m, properties_end, properties, &known);
  found->id_at = known.id.at;
  found->id_size = known.id.size;
  return 1;
}

int64_t pump_find_traced(const char *blob, const int32_t *offsets, uint64_t batch_first,
                         uint64_t batch_count, const uint64_t *batch_sequences, uint64_t first,
                         uint64_t step, uint64_t count, const uint64_t *sequences,
                         pump_traced *out, uint64_t room) {
  const run_t r = {blob, offsets, batch_first, batch_count, batch_sequences,
                   first, step, count, sequences};
  int64_t total = 0;
  PyThreadState *others = let_others(count, LONG_MESSAGES);
  for (uint64_t k = 0, i = 0, number; k < count; k++) {
    size_t size;
    const char *m = message_at(&r, k, &i, &number, &size);
    pump_traced found = {0};
    if (!m) { total = -1; break; }
    if (!traced((const uint8_t *)m, size, &found)) continue;
    if ((uint64_t)total++ >= room) continue;
    uint32_t start = (uint32_t)(m - blob);
    out[total - 1] = (pump_traced){number, (uint32_t)size, start + found.parent_at,
                                   start + found.state_at, found.state_size,
                                   start + found.id_at, found.id_size};
  }
  take_back(others);
  return total;
}
