/* Messages on their way to a peer, beside Proton's engine, and the frames that are made of them.
 *
 * Proton keeps the bytes of each delivery until it is settled, in a buffer of twice their size, and
 * copies them three times on their way. So it gets a *reference* in their place: a payload of 56 bytes
 * with the message's place. Proton writes the frame of the transfer as usual; on the way to the socket
 * the reference in it is replaced by the bytes, and the frame's size by the right one.
 *
 * Rules of this file:
 *  1. One reference is one frame with it and with the bytes, so that Proton's counts are right: of the
 *     session's window, of transfers, of deliveries. A message larger than the peer's frames is copied.
 *  2. A reference is known by its tag of 9 bytes: our other tags have another size. The ninth byte
 *     doesn't go to the peer. So no message can look like a reference, whatever its bytes.
 *  3. It allocates nothing. State between calls is in the caller's `pump_outgoing`.
 */

/* Further functions of Proton 0.40, beside those of pump.c (proton/link.h, session.h, connection.h). */
typedef struct pn_session_t pn_session_t;
typedef struct pn_connection_t pn_connection_t;
pn_session_t *pn_link_session(pn_link_t *);
pn_connection_t *pn_session_connection(pn_session_t *);
uint32_t pn_session_remote_incoming_window(pn_session_t *);
pn_transport_t *pn_connection_transport(pn_connection_t *);
uint32_t pn_transport_get_remote_max_frame(pn_transport_t *);

/* cdef:begin */
/* The state of one connection's output. At first `passing` are the 8 bytes of the protocol's
 * header. */
typedef struct {
  uint64_t passing;    /* bytes that go out as they are before the next frame begins */
  uint64_t waiting;    /* references that the engine has, and that aren't bytes yet */
  uint64_t bytes_left; /* of the message that is going out, at `bytes` */
  const char *bytes;
  uint32_t era;        /* a reference of another one is none any more */
  uint32_t head_at, head_size; /* what goes out before those bytes: a frame up to its payload */
  uint8_t head[192];
} pump_outgoing;
/* A delivery count that stands for none: the messages go as they came, with their header sections. */
#define AS_IT_CAME 0xffffffff
/* Send some messages of a batch: those with the sequences first, first+step, ... (count of them) or,
 * if it isn't NULL, `sequences`. The batch has `batch_count` messages from `batch_first` on, or those of
 * `batch_sequences`; all ascend. Returns how many bytes of messages went, or -1 when it came to a
 * sequence that the batch doesn't have. `transaction` is the one in which they are sent, 0 if in none.
 *
 * With `o`, the connection's, a message that fits into one frame and into its session's window goes by
 * reference: its bytes in `blob` must stay until `o->waiting` is 0 and pump_output has given less than
 * it had room for. Without `o` the engine copies every message. */
int64_t pump_send(const char *blob, const int32_t *offsets, uint64_t batch_first,
                  uint64_t batch_count, const uint64_t *batch_sequences, uint64_t first,
                  uint64_t step, uint64_t count, const uint64_t *sequences,
                  uint32_t delivery_count, uint64_t link, uint64_t delivered_at,
                  int presettled, uint64_t transaction, pump_outgoing *o);
/* How many of them come before the first that would be sent with more than `bytes_max` bytes; `bytes`
 * is then what that one has. -1 as above. */
int64_t pump_fitting(const char *blob, const int32_t *offsets, uint64_t batch_first,
                     uint64_t batch_count, const uint64_t *batch_sequences, uint64_t first,
                     uint64_t step, uint64_t count, const uint64_t *sequences,
                     uint32_t delivery_count, uint64_t bytes_max, uint64_t *bytes);
/* Take up to `room` bytes for the peer out of the engine, with messages in the place of references;
 * -1 when it will never have any again, -2 when a reference came that is none any more. Fewer than
 * `room`: it has no more for now. The engine tells with a flow event that it has written a transfer:
 * such events, which come of no frame of the peer, are eaten where nothing that counts lies in the
 * collector before them (0: there is no collector). */
int64_t pump_output(uint64_t transport, pump_outgoing *o, char *out, size_t room, uint64_t collector,
                    pump_t *p);
/* cdef:end */

enum { FRAME_HEAD = 8, AMQP_FRAME = 0, TRANSFER_MAX = 96, TAG_BYTES = 8 };

/* Where a message lies, and the header section that goes before it. */
typedef struct {
  const char *bytes;
  uint32_t size, era;
  uint8_t header_size, header[32];
} reference_t;

/* Where an ascending list has the sequence, at `from` or behind it; `count` if it doesn't. */
static uint64_t index_of(const uint64_t *listed, uint64_t count, uint64_t sequence, uint64_t from) {
  while (from < count && listed[from] < sequence) from++;
  return from < count && listed[from] == sequence ? from : count;
}

/* A message as it goes out: a header section of ours, if it must say more than the publisher's, and
 * the publisher's bytes, without the sections that the header stands for. */
typedef struct {
  uint8_t header[32];
  size_t header_size, size;
  const char *bytes;
} outgoing_t;

static void prepare(outgoing_t *out, const char *m, size_t size, uint32_t delivery_count) {
  header_t h = {.priority = 4};
  int annotated = 0;
  if (delivery_count == AS_IT_CAME) {
    out->header_size = 0;
    out->bytes = m;
    out->size = size;
    return;
  }
  size_t bare = bare_message((const uint8_t *)m, size, &h, &annotated);
  int more = delivery_count || annotated || h.delivery_count || h.first_acquirer;
  out->header_size = more ? write_header(out->header, &h, delivery_count) : 0;
  out->bytes = more ? m + bare : m;
  out->size = more ? size - bare : size;
}

typedef struct {
  const char *blob;
  const int32_t *offsets;
  uint64_t batch_first, batch_count;
  const uint64_t *batch_sequences;
  uint64_t first, step, count;
  const uint64_t *sequences;
} run_t;

/* The batch's message that is the k-th of a run, or NULL. `i` is where it was looked for last. */
static const char *message_at(const run_t *r, uint64_t k, uint64_t *i, uint64_t *sequence,
                              size_t *size) {
  *sequence = r->sequences ? r->sequences[k] : r->first + r->step * k;
  *i = r->batch_sequences ? index_of(r->batch_sequences, r->batch_count, *sequence, *i)
                         : *sequence - r->batch_first;
  if (*i >= r->batch_count) return NULL; /* also what lies before the batch: the difference wraps */
  *size = (size_t)(r->offsets[*i + 1] - r->offsets[*i]);
  return r->blob + r->offsets[*i];
}

/* Whether so many bytes are one frame of at most `frame_bytes_max`, 0: of whatever size. */
static int one_frame(const outgoing_t *out, size_t frame_bytes_max) {
  return !frame_bytes_max || out->header_size + out->size + TRANSFER_MAX <= frame_bytes_max;
}

/* How many frames the peer's session takes of this link now, and of which size (0: any). */
static uint64_t frames_in_window(pn_link_t *l, size_t *bytes_max) {
  pn_session_t *session = pn_link_session(l);
  uint64_t window = pn_session_remote_incoming_window(session);
  uint64_t queued = (uint64_t)pn_link_queued(l);
  *bytes_max = pn_transport_get_remote_max_frame(
      pn_connection_transport(pn_session_connection(session)));
  return window > queued ? window - queued : 0;
}

/* Give the engine a message's reference in place of its bytes. */
static void refer(pn_link_t *l, const outgoing_t *out, pump_outgoing *o) {
  reference_t r = {.bytes = out->bytes, .size = (uint32_t)out->size, .era = o->era};
  r.header_size = (uint8_t)out->header_size;
  memcpy(r.header, out->header, out->header_size);
  pn_link_send(l, (const char *)&r, sizeof r);
  o->waiting++;
}

int64_t pump_send(const char *blob, const int32_t *offsets, uint64_t batch_first,
                  uint64_t batch_count, const uint64_t *batch_sequences, uint64_t first,
                  uint64_t step, uint64_t count, const uint64_t *sequences,
                  uint32_t delivery_count, uint64_t link, uint64_t delivered_at,
                  int presettled, uint64_t transaction, pump_outgoing *o) {
  const run_t r = {blob, offsets, batch_first, batch_count, batch_sequences,
                   first, step, count, sequences};
  pn_link_t *l = (pn_link_t *)(uintptr_t)link;
  size_t frame_most = 0;
  uint64_t in_window = o ? frames_in_window(l, &frame_most) : 0;
  int64_t bytes = 0;
  PyThreadState *others = let_others(count, LONG_MESSAGES);
  for (uint64_t k = 0, i = 0, number; k < count; k++) {
    size_t size;
    const char *m = message_at(&r, k, &i, &number, &size);
    if (!m) { bytes = -1; break; }
    outgoing_t out;
    prepare(&out, m, size, delivery_count);
    int referred = k < in_window && one_frame(&out, frame_most);
    uint64_t tag[2] = {__builtin_bswap64(number), 0};
    pn_delivery_t *d = pn_delivery(l, (pn_bytes_t){sizeof *tag + (size_t)referred, (char *)tag});
    pn_delivery_set_context(d, (void *)(uintptr_t)delivered_at);
    if (transaction) write_transaction(d, TRANSACTIONAL_STATE, transaction, 0);
    if (referred) {
      refer(l, &out, o);
    } else {
      if (out.header_size) pn_link_send(l, (const char *)out.header, out.header_size);
      pn_link_send(l, out.bytes, out.size);
    }
    pn_link_advance(l);
    if (presettled) pn_delivery_settle(d);
    bytes += (int64_t)(out.header_size + out.size);
  }
  take_back(others);
  return bytes;
}

int64_t pump_fitting(const char *blob, const int32_t *offsets, uint64_t batch_first,
                     uint64_t batch_count, const uint64_t *batch_sequences, uint64_t first,
                     uint64_t step, uint64_t count, const uint64_t *sequences,
                     uint32_t delivery_count, uint64_t bytes_max, uint64_t *bytes) {
  const run_t r = {blob, offsets, batch_first, batch_count, batch_sequences,
                   first, step, count, sequences};
  for (uint64_t k = 0, i = 0, number; k < count; k++) {
    size_t size;
    const char *m = message_at(&r, k, &i, &number, &size);
    if (!m) return -1;
    outgoing_t out;
    prepare(&out, m, size, delivery_count);
    *bytes = out.header_size + out.size;
    if (*bytes > bytes_max) return (int64_t)k;
  }
  return (int64_t)count;
}

/* Whether a frame of the engine's is a transfer with a reference. `tag` is where its tag's size lies,
 * `payload` where the reference does. */
static int refers(const uint8_t *m, size_t frame, size_t *tag, size_t *payload) {
  size_t at = 4 * (size_t)m[4], end = frame - sizeof(reference_t), size;
  if (frame < FRAME_HEAD + 6 + sizeof(reference_t) || at + 6 > end) return 0;
  if (m[at] != F_DESCRIBED || m[at + 1] != F_SMALLULONG || m[at + 2] != TRANSFER) return 0;
  if (m[at + 3] != F_LIST8 || at + 5 + m[at + 4] != end) return 0;
  size_t field = at + 6; /* handle, id, tag */
  for (int i = 0; i < 2; i++) {
    if (field >= end || !(size = uint_size(m[field]))) return 0;
    field += size;
  }
  if (field + 2 + TAG_BYTES + 1 > end || m[field] != F_VBIN8 || m[field + 1] != TAG_BYTES + 1) return 0;
  *tag = field + 1;
  *payload = end;
  return 1;
}

/* The frame becomes what goes out next: its performative without the tag's ninth byte, the header
 * section, the message. 0: the reference is none any more. */
static int resolve(pump_outgoing *o, const uint8_t *m, size_t tag, size_t payload) {
  reference_t r;
  memcpy(&r, m + payload, sizeof r);
  if (r.era != o->era || !o->waiting) return 0;
  size_t kept = tag + 1 + TAG_BYTES, list = 4 * (size_t)m[4] + 4;
  memcpy(o->head, m, kept);
  memcpy(o->head + kept, m + kept + 1, payload - kept - 1);
  memcpy(o->head + payload - 1, r.header, r.header_size);
  o->head[list]--;
  o->head[tag]--;
  o->head_at = 0;
  o->head_size = (uint32_t)(payload - 1 + r.header_size);
  uint32_t frame = __builtin_bswap32(o->head_size + r.size);
  memcpy(o->head, &frame, sizeof frame);
  o->bytes = r.bytes;
  o->bytes_left = r.size;
  o->waiting--;
  return 1;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Have what was resolved go out, as much as there is room for. */
static size_t pour(pump_outgoing *o, char *out, size_t room) {
  size_t n = least(o->head_size - o->head_at, room);
  memcpy(out, o->head + o->head_at, n);
  o->head_at += (uint32_t)n;
  size_t rest = least(o->bytes_left, room - n);
  if (rest) memcpy(out + n, o->bytes, rest);
  o->bytes += rest;
  o->bytes_left -= rest;
  return n + rest;
}

/* Have `have` bytes of the engine's go out. Returns how many of them were taken, -2 for a reference
 * that is none any more. The beginning of a frame may stay until the engine has it whole. */
static int64_t pass(pump_outgoing *o, const uint8_t *m, size_t have, char *out, size_t room,
                    size_t *used) {
  size_t at = 0, tag, payload;
  while (*used < room) {
    size_t n = pour(o, out + *used, room - *used);
    *used += n;
    if (n) continue;
    if (at == have) break;
    if (o->passing) {
      n = least(least(o->passing, have - at), room - *used);
      memcpy(out + *used, m + at, n);
      o->passing -= n;
      *used += n;
      at += n;
      continue;
    }
    if (have - at < FRAME_HEAD) break;
    size_t frame = be32(m + at);
    int small = frame <= TRANSFER_MAX + sizeof(reference_t);
    if (small && have - at < frame) break;
    if (small && refers(m + at, frame, &tag, &payload)) {
      if (!resolve(o, m + at, tag, payload)) return -2;
      at += frame;
    } else {
      o->passing = frame;
    }
  }
  return (int64_t)at;
}

static int64_t take_output(pn_transport_t *t, pump_outgoing *o, char *out, size_t room) {
  size_t used = 0;
  while (used < room) {
    ssize_t pending = pn_transport_pending(t);
    if (pending < 0 && !o->bytes_left && o->head_at == o->head_size)
      return used ? (int64_t)used : -1;
    const size_t have = pending < 0 ? 0 : (size_t)pending, before = used;
    int64_t taken = pass(o, (const uint8_t *)pn_transport_head(t), have, out, room, &used);
    if (taken < 0) return taken;
    if (taken) pn_transport_pop(t, (size_t)taken);
    else if (used == before) break;
  }
  return (int64_t)used;
}

int64_t pump_output(uint64_t transport, pump_outgoing *o, char *out, size_t room, uint64_t collector,
                    pump_t *p) {
  pn_collector_t *c = (pn_collector_t *)(uintptr_t)collector;
  PyThreadState *others = let_others(o->waiting, LONG_MESSAGES);
  int told = c && pass_over(c, p, 0);
  int64_t used = take_output((pn_transport_t *)(uintptr_t)transport, o, out, room);
  if (told) pass_over(c, p, p->type_flow);
  take_back(others);
  return used;
}
