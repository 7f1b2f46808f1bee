/* Values of messages under the names that selectors use: the place of each value, and plain values
 * themselves. Behind `message.c`, whose functions it uses.
 *
 * This is the walk of `pipeline/selector/reading.py`, which is the reference. Every read of a peer's
 * bytes is bounds-checked against the message, or against a section that was checked itself. */

/* cdef:begin */
enum { VALUE_ABSENT, VALUE_UNSAID, VALUE_INTEGER, VALUE_TEXT, VALUE_TRUE, VALUE_FALSE, VALUE_OTHER };
/* Fields of the header and of properties, ascending: section (the descriptor) and position of each;
 * then application properties by name: name i lies from name_offsets[i] to name_offsets[i + 1],
 * shorter names first, those of equal length by their bytes. */
typedef struct {
  uint32_t field_count, name_count;
  const uint8_t *fields;
  const char *names;
  const uint32_t *name_offsets;
} wanted_t;
/* Gather a column of `count` cells for each field and then each name, one cell for each message,
 * the first of which lies from offsets[0] to offsets[1]. What is in `values` depends on the kind:
 * the number (INTEGER: of an application property alone, and an int64 can hold it), or two int32,
 * places in the blob: where the text begins and ends (TEXT: of an application property alone,
 * perhaps no UTF-8), or the value, its constructor included (OTHER). UNSAID: a field of a header
 * that doesn't have it, or of one that isn't there. Of application properties with more than
 * `elements_max` keys and values nothing is looked at. Returns how many bytes were passed over. */
uint64_t pump_values(const wanted_t *wanted, const char *blob, const int32_t *offsets,
                     uint32_t count, uint32_t elements_max, uint8_t *kinds, int64_t *values);
/* cdef:end */

/* One message's cells: that of column c is kinds[c * step] and values[c * step]. */
typedef struct { uint8_t *kinds; int64_t *values; size_t step; const uint8_t *blob; } cells_t;

static void put(const cells_t *cells, size_t column, uint8_t kind, int64_t value) {
  cells->kinds[column * cells->step] = kind;
  cells->values[column * cells->step] = value;
}

static void put_place(const cells_t *cells, size_t column, uint8_t kind, const uint8_t *start,
                      const uint8_t *stop) {
  const int32_t place[2] = {(int32_t)(start - cells->blob), (int32_t)(stop - cells->blob)};
  cells->kinds[column * cells->step] = kind;
  memcpy(&cells->values[column * cells->step], place, sizeof place);
}

/* The end of the value at `at`, or 0 if it isn't inside `size`. Unlike `value_end` it passes over
 * descriptors that are described themselves, as the reader in Python does. */
static size_t skipped(const uint8_t *m, size_t size, size_t at, int depth) {
  if (at >= size) return 0;
  if (m[at] != F_DESCRIBED) return value_end(m, size, at);
  if (depth >= DEPTH_MAX) return 0;
  size_t value = skipped(m, size, at + 1, depth + 1);
  return value ? skipped(m, size, value, depth + 1) : 0;
}

/* The section that begins at `at`, however its descriptor is written, and where its value does. */
static int any_section(const uint8_t *m, size_t size, size_t at, size_t *value) {
  int64_t code = NOT_A_SECTION;
  if (at + 2 > size || m[at] != F_DESCRIBED || m[at + 1] == F_DESCRIBED) return NOT_A_SECTION;
  if (m[at + 1] == F_SMALLULONG) {
    if (at + 3 > size) return NOT_A_SECTION;
    code = m[at + 2];
    *value = at + 3;
  } else {
    if (!(*value = value_end(m, size, at + 1))) return NOT_A_SECTION;
    if (is_text(m, at + 1)) {
      text_t name = text(m, at + 1);
      code = section_named(name.start, name.size);
    } else if (!integer(m, at + 1, &code)) return NOT_A_SECTION;
  }
  return code >= FIRST_SECTION && code <= LAST_SECTION ? (int)code : NOT_A_SECTION;
}

/* The wanted fields of one list, whose section ends at `end`: those from `field` on. */
static void read_fields(const wanted_t *w, uint32_t field, const uint8_t *m, size_t end, size_t at,
                        const cells_t *cells) {
  uint32_t count, position = 0;
  int section = w->fields[2 * field];
  size_t place = list_fields(m, end, at, &count);
  if (!place || place > end || count > end - place) return;
  for (; field < w->field_count && w->fields[2 * field] == section; field++) {
    uint32_t wanted = w->fields[2 * field + 1];
    if (wanted >= count) {
      put(cells, field, section == HEADER ? VALUE_UNSAID : VALUE_ABSENT, 0);
      continue;
    }
    size_t next;
    while (position < wanted && (next = skipped(m, end, place, 0))) {
      place = next;
      position++;
    }
    if (position == wanted && (next = skipped(m, end, place, 0)))
      put_place(cells, field, VALUE_OTHER, m + place, m + next);
  }
}

/* Which of the names it is, or name_count. */
static uint32_t named(const wanted_t *w, const uint8_t *name, size_t size) {
  uint32_t low = 0, high = w->name_count;
  while (low < high) {
    uint32_t middle = (low + high) / 2, start = w->name_offsets[middle];
    size_t length = w->name_offsets[middle + 1] - start;
    int order = length < size ? -1 : length > size ? 1 : memcmp(w->names + start, name, size);
    if (!order) return middle;
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return w->name_count;
}

static void put_property(const cells_t *cells, size_t column, const uint8_t *m, size_t at,
                         size_t end) {
  int64_t number;
  uint8_t code = m[at];
  if (is_string(m, at)) put_place(cells, column, VALUE_TEXT, m + content_of(code, at), m + end);
  else if (code == F_NULL) put(cells, column, VALUE_ABSENT, 0);
  else if (is_true(m, at)) put(cells, column, VALUE_TRUE, 0);
  else if (code == F_FALSE || (code == F_BOOLEAN && !m[at + 1])) put(cells, column, VALUE_FALSE, 0);
  else if (!(code == F_ULONG && be64(m + at + 1) > INT64_MAX) && integer(m, at, &number))
    put(cells, column, VALUE_INTEGER, number);
  else put_place(cells, column, VALUE_OTHER, m + at, m + end);
}

/* The named properties of a map whose section ends at `end`: of a name that comes twice the last
 * one, and nothing at all unless the map is whole. */
static void read_properties_map(const wanted_t *w, const uint8_t *m, size_t end, size_t at,
                                uint32_t elements_max, const cells_t *cells) {
  uint32_t count;
  size_t key = map_entries(m, end, at, &count), value, next;
  if (!key || count % 2 || count > end - key || count > elements_max) return;
  uint32_t left = count;
  for (; key < end && left; key = next, left -= 2) {
    if (!is_string(m, key)) break;
    if (!(value = value_end(m, end, key)) || !(next = skipped(m, end, value, 0))) break;
    text_t name = text(m, key);
    uint32_t which = named(w, (const uint8_t *)name.start, name.size);
    if (which < w->name_count) put_property(cells, w->field_count + which, m, value, next);
  }
  if (key != end || left)
    for (uint32_t i = 0; i < w->name_count; i++) put(cells, w->field_count + i, VALUE_ABSENT, 0);
}

static size_t read_values(const wanted_t *w, const uint8_t *m, size_t size, uint32_t elements_max,
                          const cells_t *cells) {
  uint32_t in_header = 0, field;
  while (in_header < w->field_count && w->fields[2 * in_header] == HEADER) in_header++;
  int before = NOT_A_SECTION, code;
  int last = w->name_count ? APPLICATION_PROPERTIES
             : w->field_count ? w->fields[2 * w->field_count - 2] : NOT_A_SECTION;
  for (field = 0; field < in_header; field++) put(cells, field, VALUE_UNSAID, 0);
  size_t at = 0;
  for (size_t value = 0, end; at < size; at = end, before = code) {
    code = any_section(m, size, at, &value);
    /* A header's fields are its own; a message that begins with no section has no values. */
    if (!before && code <= HEADER)
      for (field = 0; field < in_header; field++) put(cells, field, VALUE_ABSENT, 0);
    if (code <= before || code > last || !(end = skipped(m, size, value, 0))) return at;
    if (code == APPLICATION_PROPERTIES) {
      read_properties_map(w, m, end, value, elements_max, cells);
      return end;
    }
    if (code == HEADER && in_header) read_fields(w, 0, m, end, value, cells);
    if (code == PROPERTIES && in_header < w->field_count)
      read_fields(w, in_header, m, end, value, cells);
  }
  return at;
}

uint64_t pump_values(const wanted_t *wanted, const char *blob, const int32_t *offsets,
                     uint32_t count, uint32_t elements_max, uint8_t *kinds, int64_t *values) {
  uint64_t looked = 0;
  PyThreadState *others = let_others(count, LONG_MESSAGES);
  memset(kinds, VALUE_ABSENT, (size_t)count * (wanted->field_count + wanted->name_count));
  for (uint32_t i = 0; i < count; i++) {
    const cells_t cells = {kinds + i, values + i, count, (const uint8_t *)blob};
    looked += read_values(wanted, (const uint8_t *)blob + offsets[i],
                          (size_t)(offsets[i + 1] - offsets[i]), elements_max, &cells);
  }
  take_back(others);
  return looked;
}
