/* A walk over the frames of one direction of a connection, beside Proton's engine: it has the guard
 * judge incoming frames (guard.c), finds the few frames with fields that the engine can't read, and
 * lets all others pass.
 *
 * The rules are those of pump.c, whose readers of values are used here. State between calls is in the
 * caller's `pump_walk`: the bytes of a passing frame that are still to come.
 *
 * Frames: AMQP 1.0 part 2, section 2.3; performatives: section 2.7.
 */

/* cdef:begin */
/* `left`: bytes of a passing frame, or of others that aren't looked at. After a stop: `at` is where the
 * frame begins that stopped the walk (all earlier bytes pass), `size` the number of its bytes, or
 * (WALK_SHORT) of those that must be there before it can be judged. */
typedef struct {
  uint64_t left, at, size;
  pump_frame_limits limits; /* of frames that come */
  uint64_t covers, covers_max; /* deliveries that dispositions cover; there the walk stops (0: never) */
  pump_guard *guard;        /* of the same; NULL: they aren't judged */
} pump_walk;

/* All passes; a frame is cut before it could be judged; an attach; a flow that wants an answer, or
 * gives more credit than the engine can count, or has properties, or is of a link on which its peer
 * sends (of what we write: any flow); a transfer that isn't plain; a disposition with another state
 * than the five that the engine knows; a performative that isn't named by a number; a session's end; a
 * frame that the guard refuses (it says why); a begin or an attach for which the guard needs more room
 * first; all that comes behind a close. */
#define WALK_ALL 0
#define WALK_SHORT 1
#define WALK_ATTACH 2
#define WALK_FLOW 3
#define WALK_TRANSFER 4
#define WALK_DISPOSITION 5
#define WALK_NAMED 6
#define WALK_END 8
#define WALK_VIOLATION 9
#define WALK_ROOM 10
#define WALK_CLOSED 11
/* A frame that brings more values than it may, or broken ones: `size` bytes of it, all or as many as
 * are there. */
#define WALK_HEAVY 13
/* The dispositions that passed up to `at` cover `covers_max` deliveries: their events must be handled
 * first. The caller clears `covers` before it goes on. */
#define WALK_COVERS 16
/* Walk over `size` bytes up to the first frame that stops it. What we write ourselves is only stopped
 * at attaches (WALK_OUT), or at attaches and flows (WALK_OUT_FLOWS). */
#define WALK_IN 0
#define WALK_OUT 1
#define WALK_OUT_FLOWS 2
int pump_walk_on(pump_walk *w, const char *bytes, size_t size, size_t frame_bytes_max, int way);
/* Walk, and hand passing bytes to the engine; also WALK_NO_MORE: the engine takes no more. */
#define WALK_NO_MORE 7
int pump_walk_in(uint64_t transport, pump_walk *w, const char *bytes, size_t size,
                 size_t frame_bytes_max);
/* Have the engine write its output until now, so that later frames can't change it. */
void pump_write(uint64_t transport);
/* Have the engine send the state of a session, and of one of its incoming links if it isn't 0. */
void pump_echo(uint64_t session, uint64_t link);
/* How many transfers the peer's window allows in a session; where it is overrun already, the engine's
 * count has wrapped around. */
uint32_t pump_window(uint64_t session);
/* cdef:end */

size_t pn_session_get_incoming_capacity(pn_session_t *);
void pn_session_set_incoming_capacity(pn_session_t *, size_t);

#define CREDIT_MAX 0x7fffffffu /* the engine counts credit with a sign */

/* The number that a value is described by, and where the value begins; -1 if it is no number. */
static int described_as(const uint8_t *m, size_t end, size_t at, size_t *value) {
  if (at + 3 <= end && m[at] == F_DESCRIBED && m[at + 1] == F_SMALLULONG) {
    *value = at + 3;
    return m[at + 2];
  }
  if (at + 10 <= end && m[at] == F_DESCRIBED && m[at + 1] == F_ULONG &&
      be64(m + at + 2) <= UINT8_MAX) {
    *value = at + 10;
    return m[at + 9];
  }
  return -1;
}

/* Where field `wanted` of a list begins; 0: the list is broken; `end`: it has no such field. */
static size_t list_field(const uint8_t *m, size_t end, size_t at, uint32_t wanted) {
  uint32_t count;
  size_t field = list_fields(m, end, at, &count);
  if (!field || count <= wanted) return field ? end : 0;
  while (wanted--)
    if (!(field = value_end(m, end, field))) return 0;
  return value_end(m, end, field) ? field : 0;
}

enum { ID_BYTES = 8 };

/* A state of a transaction as `read_transaction` can read it: an id as ours are, and an outcome that
 * the engine knows, or none. */
static int known_transaction(const uint8_t *m, size_t end, size_t at) {
  uint32_t count;
  size_t field = list_fields(m, end, at, &count), value;
  if (!field || !count || count > 2 || field + 2 + ID_BYTES > end) return 0;
  if (m[field] != F_VBIN8 || m[field + 1] != ID_BYTES) return 0;
  if (count == 1) return 1;
  int code = described_as(m, end, field + 2 + ID_BYTES, &value);
  return code >= ACCEPTED && code <= MODIFIED;
}

/* A state is none, one of the five of which the engine knows what they mean, or one of a transaction
 * that the pump can read. */
static int known_state(const uint8_t *m, size_t end, size_t at) {
  size_t value;
  if (is_null(m, at)) return 1;
  int code = described_as(m, end, at, &value);
  if (code == TRANSACTIONAL_STATE) return known_transaction(m, end, value);
  return code >= RECEIVED && code <= MODIFIED;
}

/* Whether a performative has a field that the engine overlooks; `end` is where it ends. */
static int judge(const uint8_t *m, size_t end, size_t at, int code) {
  size_t field;
  switch (code) {
    case FLOW: /* link-credit is its seventh field, drain its ninth, echo its tenth */
      field = list_field(m, end, at, 6);
      if (!field || (field < end && uint_value(m, field, 0) > CREDIT_MAX)) return WALK_FLOW;
      field = list_field(m, end, at, 9);
      if (!field || (field < end && is_true(m, field))) return WALK_FLOW;
      field = list_field(m, end, at, 10); /* properties: a transaction may stand there */
      if (!field || (field < end && !is_null(m, field))) return WALK_FLOW;
      field = list_field(m, end, at, 8);
      if (!field || field == end || !is_true(m, field)) return field ? WALK_ALL : WALK_FLOW;
      return uint_value(m, list_field(m, end, at, 6), 1) ? WALK_ALL : WALK_FLOW;
    case DISPOSITION: /* state is its fifth */
      field = list_field(m, end, at, 4);
      return !field || (field < end && !known_state(m, end, field)) ? WALK_DISPOSITION : WALK_ALL;
    case TRANSFER: /* message-format is its fourth, state its eighth, resume its ninth */
      field = list_field(m, end, at, 3);
      if (!field || (field < end && !is_null(m, field) && uint_value(m, field, 1)))
        return WALK_TRANSFER;
      field = list_field(m, end, at, 8); /* resume */
      if (!field || (field < end && is_true(m, field))) return WALK_TRANSFER;
      field = list_field(m, end, at, 7);
      if (!field || (field < end && !known_state(m, end, field))) return WALK_TRANSFER;
      if (field == end || described_as(m, end, field, &field) != TRANSACTIONAL_STATE) return WALK_ALL;
      field = list_field(m, end, at, 2); /* its tag: without it a message goes on that began before */
      return field == end || is_null(m, field) ? WALK_TRANSFER : WALK_ALL;
    default:
      return WALK_ALL;
  }
}

/* A boolean of one byte, or null. */
static inline int is_flag(uint8_t code) {
  return code == F_NULL || code == F_TRUE || code == F_FALSE;
}

/* Whether a short list lies at `at`, described by this number in the usual encoding. */
static inline int plain_list(const uint8_t *m, size_t have, size_t at, int code) {
  return at + 6 <= have && m[at + 1] == F_SMALLULONG && m[at + 2] == code &&
         m[at] == F_DESCRIBED && m[at + 3] == F_LIST8;
}

/* The fields of a plain transfer. */
typedef struct {
  uint32_t handle, id;
  int more;
} transfer_t;

/* Whether the frame with its body at `at` is a transfer as nearly all are: described by a small
 * number, short, with a handle, an id, a tag, format 0 and no state. Then nothing else need be
 * looked at; most of all frames are such. */
static inline int plain_transfer(const uint8_t *m, size_t have, size_t at, transfer_t *t) {
  if (!plain_list(m, have, at, TRANSFER)) return 0;
  size_t end = at + 5 + m[at + 4], field = at + 6, size;
  unsigned count = m[at + 5];
  if (count < 4 || count > 7 || end > have) return 0;
  /* The list's end is `have` at most, and a value has a byte. */
  if (field >= end || !(size = uint_size(m[field])) || field + size > end) return 0;
  t->handle = uint_value(m, field, 0);
  field += size;
  if (field >= end || !(size = uint_size(m[field])) || field + size > end) return 0;
  t->id = uint_value(m, field, 0);
  field += size;
  if (field + 2 > end || m[field] != F_VBIN8) return 0;
  field += 2 + (size_t)m[field + 1];
  if (field >= end) return 0;
  size = is_null(m, field) ? 1 : uint_size(m[field]);
  if (!size || field + size > end || uint_value(m, field, 0)) return 0;
  field += size;
  if (field + count - 4 != end) return 0; /* settled, more and a mode of a byte each, or none */
  t->more = count > 5 && m[field + 1] == F_TRUE;
  for (; field < end; field++)
    if (!is_flag(m[field])) return 0;
  return 1;
}

/* The fields of a plain disposition. */
typedef struct {
  uint32_t first, last;
  int role;
} disposition_t;

/* Whether the frame with its body at `at` is a disposition as nearly all are: described by a small
 * number, short, with a role, a first and a last delivery or none, and an outcome without fields.
 * Then nothing else need be looked at, and it brings no more values than a plain transfer; of a
 * consumer's frames most are such. */
static inline int plain_disposition(const uint8_t *m, size_t have, size_t at, disposition_t *d) {
  if (!plain_list(m, have, at, DISPOSITION)) return 0;
  size_t end = at + 5 + m[at + 4], field = at + 6, size;
  unsigned count = m[at + 5];
  if ((count != 5 && count != 6) || end > have) return 0;
  if (field >= end || (m[field] != F_TRUE && m[field] != F_FALSE)) return 0;
  d->role = m[field++] == F_TRUE;
  if (field >= end || !(size = uint_size(m[field])) || field + size > end) return 0;
  d->first = uint_value(m, field, 0);
  field += size;
  if (field >= end || !(size = is_null(m, field) ? 1 : uint_size(m[field])) || field + size > end)
    return 0;
  d->last = uint_value(m, field, d->first);
  field += size;
  if (field + count != end) return 0; /* settled, a state of four bytes, and `batchable` or none */
  if (!is_flag(m[field]) || m[field + 1] != F_DESCRIBED || m[field + 2] != F_SMALLULONG) return 0;
  if (m[field + 3] < ACCEPTED || m[field + 3] > MODIFIED || m[field + 4] != F_LIST0) return 0;
  return count == 5 || is_flag(m[field + 5]);
}

/* A frame as far as it was read: the place of its performative's list, 0 if it has none; or its fields
 * if it is a plain transfer or an incoming plain disposition. */
typedef struct {
  uint32_t channel;
  int code, plain;
  size_t value, end;
  transfer_t transfer;
  disposition_t disposition;
} frame_t;

/* Whether a flow is of a link on which its peer sends: it may say how many messages it has sent, and
 * so how much of its credit is left. */
static int of_sender(const pump_guard *g, const uint8_t *m, size_t end, size_t at,
                     uint32_t channel) {
  size_t field = list_field(m, end, at, 4);
  if (!field || field == end || is_null(m, field)) return 0;
  uint32_t handle = uint_value(m, field, NO_HANDLE);
  if (handle > HANDLE_MAX) return 0;
  int state = g->endpoints[locate(g, key_of(channel, handle))].state;
  return state == LINK_SENDER || state == LINK_SENDING;
}

static int refused(pump_guard *g, int violation, uint32_t number) {
  if (!g) return WALK_ALL;
  g->code = g->channel = 0;
  violated(g, violation, number);
  return WALK_VIOLATION;
}

/* Whether a flow's window ends before the one that its peer gave earlier: then so may the transfers
 * that went out meanwhile, which the engine's count doesn't allow for. */
static int shrinks(const pump_guard *g, const uint8_t *m, size_t end, size_t at, uint32_t channel) {
  const pump_endpoint *session = g->endpoints + locate(g, key_of(channel, NO_HANDLE));
  size_t id = list_field(m, end, at, 0), window = list_field(m, end, at, 1);
  if (!session->state || !id || !window || window == end) return 0;
  return (int32_t)(uint_value(m, id, 0) + uint_value(m, window, 0) - session->limit) < 0;
}

/* The action for the frame that begins at `m`, of which `have` bytes of `size` are there. */
static int look(const uint8_t *m, size_t have, size_t size, int way, pump_guard *g, frame_t *f,
                size_t *need) {
  size_t at = 4 * (size_t)m[4];
  f->code = 0;
  f->channel = (uint32_t)m[6] << 8 | m[7];
  if (m[5] != AMQP_FRAME) return refused(g, VIOLATION_FRAME_TYPE, m[5]);
  if (at < FRAME_HEAD || at > size) return refused(g, VIOLATION_FRAME_HEAD, 0);
  if (at == size) return WALK_ALL; /* empty */
  size_t there = have < size ? have : size;
  f->plain = plain_transfer(m, there, at, &f->transfer);
  f->code = TRANSFER;
  if (f->plain) return WALK_ALL;
  f->plain = way == WALK_IN && plain_disposition(m, there, at, &f->disposition);
  f->code = DISPOSITION;
  if (f->plain) return WALK_ALL;
  *need = at + 3 < size ? at + 3 : size;
  if (have < *need) return WALK_SHORT;
  if (m[at] == F_DESCRIBED && at + 2 < size && m[at + 1] != F_SMALLULONG) {
    *need = size;
    if (have < size) return WALK_SHORT;
  }
  int code = f->code = described_as(m, there, at, &f->value);
  if (way != WALK_IN && code != ATTACH && (way != WALK_OUT_FLOWS || code != FLOW)) return WALK_ALL;
  if (code < 0) return m[at] == F_DESCRIBED ? WALK_NAMED : refused(g, VIOLATION_UNKNOWN, 0);
  f->end = f->value < there ? value_end(m, there, f->value) : 0;
  int stop = code == ATTACH ? WALK_ATTACH : code == END ? WALK_END
           : code >= FLOW && code <= DISPOSITION ? WALK_FLOW + code - FLOW : WALK_ALL;
  *need = size;
  if (have < size && !f->end) return WALK_SHORT;
  if (way == WALK_IN && code >= FLOW && code <= DISPOSITION && f->end)
    stop = judge(m, f->end, f->value, code);
  if (g && stop == WALK_ALL && code == FLOW && f->end &&
      (of_sender(g, m, f->end, f->value, f->channel) || shrinks(g, m, f->end, f->value, f->channel)))
    stop = WALK_FLOW;
  return stop && have < size ? WALK_SHORT : stop;
}

/* Have the guard judge an incoming frame, once. `stop` is the action if the guard admits it. */
static inline int guarded(pump_guard *g, const uint8_t *m, const frame_t *f, int stop) {
  const transfer_t *t = &f->transfer;
  if (!f->code || stop == WALK_SHORT || stop == WALK_NAMED || stop == WALK_HEAVY ||
      stop == WALK_VIOLATION)
    return stop;
  if (f->plain && f->code == TRANSFER && admitted_again(g, f->channel, t->handle, t->id, t->more))
    return stop;
  const disposition_t *d = &f->disposition;
  int said = !f->plain ? admit(g, m, f->end, f->value, f->code, f->channel)
             : f->code == TRANSFER ? admit_transfer(g, f->channel, t->handle, t->id, t->more)
                                   : admit_outcomes(g, f->channel, d->role, d->first, d->last);
  return said == ADMITTED ? stop : said == NO_ROOM ? WALK_ROOM : WALK_VIOLATION;
}

/* Stop a frame that exceeds its budget of values. `stop` is the action if it doesn't. */
static int weighed(const pump_walk *w, const uint8_t *m, size_t have, size_t size, int stop,
                   size_t *need) {
  size_t at = 4 * (size_t)m[4], there = have < size ? have : size;
  if (stop == WALK_SHORT || at >= there || m[at] != F_DESCRIBED) return stop;
  *need = size;
  if (have < size && !value_end(m, there, at)) return WALK_SHORT;
  return value_within(m, there, at, size, &w->limits) ? stop : WALK_HEAVY;
}

int pump_walk_on(pump_walk *w, const char *bytes, size_t size, size_t frame_bytes_max, int way) {
  const uint8_t *m = (const uint8_t *)bytes;
  size_t at = 0;
  w->size = 0;
  while (at < size) {
    size_t have = size - at;
    if (w->left) {
      size_t passes = w->left < have ? w->left : have;
      w->left -= passes;
      at += passes;
      continue;
    }
    w->at = at;
    w->size = FRAME_HEAD;
    if (w->guard && w->guard->state == CONNECTION_CLOSED) return WALK_CLOSED;
    if (have < FRAME_HEAD) return WALK_SHORT;
    size_t frame = be32(m + at), need = 0;
    if (frame < FRAME_HEAD || frame > frame_bytes_max) {
      if (w->guard) return refused(w->guard, VIOLATION_FRAME_SIZE, (uint32_t)frame);
      w->left = UINT64_MAX; /* nothing more can be found */
      continue;
    }
    frame_t f;
    int stop = look(m + at, have, frame, way, w->guard, &f, &need);
    if (need && way == WALK_IN) stop = weighed(w, m + at, have, frame, stop, &need);
    if (w->guard) stop = guarded(w->guard, m + at, &f, stop);
    if (stop) {
      w->size = stop == WALK_SHORT ? need : stop == WALK_HEAVY && have < frame ? have : frame;
      return stop;
    }
    w->left = frame;
    if (!w->guard || f.code != DISPOSITION || have < frame) continue;
    w->covers += (uint64_t)(w->guard->last - w->guard->first) + 1;
    if (w->covers_max && w->covers >= w->covers_max) {
      w->at = at + frame;
      w->left = w->size = 0;
      return WALK_COVERS;
    }
  }
  w->at = size;
  return WALK_ALL;
}

int pump_walk_in(uint64_t transport, pump_walk *w, const char *bytes, size_t size,
                 size_t frame_bytes_max) {
  PyThreadState *others = let_others(size, LONG_BYTES);
  int stop = pump_walk_on(w, bytes, size, frame_bytes_max, WALK_IN);
  if (!pump_input(transport, bytes, w->at)) stop = WALK_NO_MORE;
  take_back(others);
  return stop;
}

void pump_write(uint64_t transport) {
  pn_transport_pending((pn_transport_t *)(uintptr_t)transport);
}

uint32_t pump_window(uint64_t session) {
  return pn_session_remote_incoming_window((pn_session_t *)(uintptr_t)session);
}

void pump_echo(uint64_t session, uint64_t link) {
  pn_session_t *s = (pn_session_t *)(uintptr_t)session;
  /* Setting the capacity, even to the same value, has the engine tell the session's state; giving a
   * link a credit of 0 tells the link's state with it. */
  if (link) pn_link_flow((pn_link_t *)(uintptr_t)link, 0);
  pn_session_set_incoming_capacity(s, pn_session_get_incoming_capacity(s));
}
