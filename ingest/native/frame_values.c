/* The number of values in a frame, nested ones too, counted before Proton's engine gets it: an array
 * of ten bytes can hold 65,535 nulls, and the engine makes a node of each.
 *
 * Counted as `pipeline.codec.amqp_types.DecodeBudget` does: the elements of a container when it is entered,
 * and one for each described value. Both the number and the depth are bounded by the budget. */

/* cdef:begin */
/* Most values of one frame, and their most depth. */
typedef struct { uint32_t values_max, depth_max; } pump_frame_limits;
/* Where the value at `at` ends, all of it inside `size` bytes and within its budget; else 0. */
size_t pump_value_within(const char *bytes, size_t size, size_t at, const pump_frame_limits *limits);
/* cdef:end */

typedef struct { const uint8_t *m; size_t end; int64_t values; int64_t depth; } budget_t;

static size_t counted(budget_t *b, size_t at);

static int entered(budget_t *b, uint32_t values) {
  b->values -= values;
  return b->values >= 0 && --b->depth >= 0;
}

static size_t counted_as(budget_t *b, uint8_t code, size_t at);

/* The elements of an array, whose constructor stands once, at `at`; they end before `stop`. */
static size_t counted_array(budget_t *b, size_t at, size_t stop, uint32_t count) {
  uint32_t descriptors = 0;
  while (at < stop && b->m[at] == F_DESCRIBED) {
    if (!entered(b, 1) || !(at = counted(b, at + 1))) return 0;
    descriptors++;
  }
  if (at >= stop) return 0;
  b->depth += descriptors;
  uint8_t code = b->m[at++];
  while (count--) {
    for (uint32_t i = 0; i < descriptors; i++)
      if (!entered(b, 1)) return 0;
    if (!(at = counted_as(b, code, at)) || at > stop) return 0;
    b->depth += descriptors;
  }
  return at;
}

/* Where a value ends whose constructor is `code` and whose bytes begin at `at`. */
static size_t counted_as(budget_t *b, uint8_t code, size_t at) {
  unsigned high = code >> 4, fixed = fixed_bytes[high];
  if (fixed) return at + fixed - 1 <= b->end ? at + fixed - 1 : 0;
  size_t width = size_bytes[high], start = at + width;
  if (!width || start > b->end) return 0;
  int wide = width > 1;
  size_t stop = start + (wide ? be32(b->m + at) : b->m[at]);
  if (stop > b->end) return 0;
  if (high < CONTAINERS) return stop;
  size_t first = start + width;
  if (first > stop) return 0;
  uint32_t count = wide ? be32(b->m + start) : b->m[start];
  if (!entered(b, count)) return 0;
  if (high >= ARRAYS) first = counted_array(b, first, stop, count);
  else while (count-- && first) first = first < stop ? counted(b, first) : 0;
  b->depth++;
  return first == stop ? stop : 0;
}

static size_t counted(budget_t *b, size_t at) {
  if (at >= b->end) return 0;
  if (b->m[at] != F_DESCRIBED) return counted_as(b, b->m[at], at + 1);
  if (!entered(b, 1)) return 0;
  at = counted(b, at + 1);
  if (at) at = counted(b, at);
  b->depth++;
  return at;
}

static size_t value_within(const uint8_t *m, size_t size, size_t at, size_t frame,
                           const pump_frame_limits *limits) {
  uint64_t most = (uint64_t)frame + EMPTY_ELEMENTS_MAX;
  budget_t budget = {m, size, limits->values_max < most ? limits->values_max : (int64_t)most,
                     limits->depth_max};
  return counted(&budget, at);
}

size_t pump_value_within(const char *bytes, size_t size, size_t at, const pump_frame_limits *limits) {
  return value_within((const uint8_t *)bytes, size, at, size, limits);
}
