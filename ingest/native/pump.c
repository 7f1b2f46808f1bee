/* The loops over messages inside a run, beside Proton's engine: receive, inspect, settle. message.c
 * reads messages; outgoing.c sends them.
 *
 * Rules of this file:
 *  1. It moves runs between Proton and arrays that Python owns, and stops where something needs a
 *     decision (another link, another event, no room, a bad message). Three answers are fixed and
 *     given here: a non-persistent message is accepted on receipt (but not in a transaction, through
 *     the relay, or where the caller sets `late`, for all links or for one), a message on a link that
 *     we have ended and a resumed delivery are released, and the credit of an aborted one is given
 *     back.
 *  2. It allocates nothing. State between calls is one word for each delivery, its context in Proton:
 *     of an incoming one that it was taken, of an outgoing one the time of its delivery.
 */
#include <sys/types.h>
#include <time.h>

/* Used functions of Proton 0.40 (proton/link.h, delivery.h, disposition.h, event.h). */
typedef struct { size_t size; const char *start; } pn_bytes_t;
typedef struct pn_delivery_t pn_delivery_t;
typedef struct pn_disposition_t pn_disposition_t;
typedef struct pn_collector_t pn_collector_t;
typedef struct pn_event_t pn_event_t;
pn_event_t *pn_collector_peek(pn_collector_t *);
_Bool pn_collector_pop(pn_collector_t *);
int pn_event_type(pn_event_t *);
pn_delivery_t *pn_event_delivery(pn_event_t *);
_Bool pn_link_is_sender(pn_link_t *);
int pn_link_state(pn_link_t *);
_Bool pn_link_advance(pn_link_t *);
ssize_t pn_link_recv(pn_link_t *, char *, size_t);
ssize_t pn_link_send(pn_link_t *, const char *, size_t);
pn_delivery_t *pn_delivery(pn_link_t *, pn_bytes_t);
pn_link_t *pn_delivery_link(pn_delivery_t *);
typedef struct pn_terminus_t pn_terminus_t;
pn_terminus_t *pn_link_remote_target(pn_link_t *);
const char *pn_terminus_get_address(pn_terminus_t *);
int pn_terminus_get_type(pn_terminus_t *);
pn_bytes_t pn_delivery_tag(pn_delivery_t *);
size_t pn_delivery_pending(pn_delivery_t *);
_Bool pn_delivery_partial(pn_delivery_t *);
_Bool pn_delivery_aborted(pn_delivery_t *);
_Bool pn_delivery_settled(pn_delivery_t *);
uint64_t pn_delivery_remote_state(pn_delivery_t *);
pn_disposition_t *pn_delivery_remote(pn_delivery_t *);
pn_disposition_t *pn_delivery_local(pn_delivery_t *);
_Bool pn_disposition_is_failed(pn_disposition_t *);
_Bool pn_disposition_is_undeliverable(pn_disposition_t *);
void pn_delivery_update(pn_delivery_t *, uint64_t);
void pn_delivery_settle(pn_delivery_t *);
void pn_delivery_clear(pn_delivery_t *);
pn_delivery_t *pn_unsettled_head(pn_link_t *);
pn_delivery_t *pn_unsettled_next(pn_delivery_t *);
void *pn_link_get_context(pn_link_t *);
void pn_link_set_context(pn_link_t *, void *);
void pn_disposition_set_failed(pn_disposition_t *, _Bool);
void pn_disposition_set_undeliverable(pn_disposition_t *, _Bool);
void *pn_delivery_get_context(pn_delivery_t *);
void pn_delivery_set_context(pn_delivery_t *, void *);
typedef struct pn_data_t pn_data_t;
pn_data_t *pn_disposition_data(pn_disposition_t *);
void pn_data_rewind(pn_data_t *);
void pn_data_clear(pn_data_t *);
_Bool pn_data_next(pn_data_t *);
_Bool pn_data_enter(pn_data_t *);
_Bool pn_data_exit(pn_data_t *);
pn_bytes_t pn_data_get_binary(pn_data_t *);
uint64_t pn_data_get_ulong(pn_data_t *);
_Bool pn_data_get_bool(pn_data_t *);
int pn_data_put_list(pn_data_t *);
int pn_data_put_described(pn_data_t *);
int pn_data_put_binary(pn_data_t *, pn_bytes_t);
int pn_data_put_ulong(pn_data_t *, uint64_t);
int pn_data_put_bool(pn_data_t *, _Bool);
typedef struct pn_transport_t pn_transport_t;
ssize_t pn_transport_push(pn_transport_t *, const char *, size_t);
ssize_t pn_transport_capacity(pn_transport_t *);
ssize_t pn_transport_pending(pn_transport_t *);
const char *pn_transport_head(pn_transport_t *);
void pn_transport_pop(pn_transport_t *, size_t);

/* cdef:begin */
/* Outcomes of a run of deliveries on one outgoing link: sequences first, first+step, ... count of
 * them; with step 0 they are irregular, and ascend. */
typedef struct {
  uint64_t link;   /* pn_link_t */
  uint64_t delivered_at;  /* as given to pump_send */
  uint64_t first, step, count;
  uint64_t transaction; /* in which they were given it, 0: in none */
  uint64_t state;  /* ACCEPTED to MODIFIED, or 0: settled without a state */
  uint32_t failed, undeliverable;
  uint32_t confirm; /* 1: its peer waits for our settlement; its deliveries are in `unsettled` */
} pump_outcome;

typedef struct {
  /* Incoming messages of one link; arrays have room for `room` messages and `bytes_room` bytes. */
  char *bytes;
  size_t bytes_room, bytes_used;
  uint32_t *lengths, *ttl, *to_at, *to_size, *id_at, *id_size;
  int64_t *expires_at, *deliver_at; /* microseconds since the epoch; 0: never, at once */
  uint8_t *durable, *priority;
  uint64_t *deliveries; /* pn_delivery_t still to be settled, 0 if done already */
  uint32_t room, count;
  uint32_t to_settle; /* how many deliveries are not 0 */
  uint32_t expiring, delayed; /* how many messages have such a time */
  uint32_t special; /* how many have a header attribute: a priority, a time, a group */
  size_t brought; /* bytes that the peer has sent for this pass: much of it is long work */
  int32_t credit; /* of the link whose messages these are; below 0: it sent more than it may */
  int64_t now; /* when they came, by the service's clock; 0: by the machine's, when first asked */
  uint64_t link, transaction; /* of all of them; transaction 0: none */
  /* Outgoing links. */
  pump_outcome *outcomes;
  uint32_t outcomes_room, outcomes_count;
  uint64_t *settled; /* the sequences of all outcomes, in their order */
  uint32_t settled_room, settled_count;
  uint64_t *unsettled; /* deliveries with an outcome that their peer wants confirmed */
  uint32_t unsettled_room, unsettled_count;
  /* Limits, and the delivery that stopped the pump. */
  size_t message_bytes_max;
  uint64_t event_mask; /* types of events that Python wants to see, a bit each */
  int type_delivery, type_flow;
  int late; /* non-persistent messages aren't accepted on receipt either: they may be refused */
  int reasons; /* a rejected delivery isn't settled here: the caller reads why from it, and settles */
  int unfinished; /* set when a part of a message came that isn't complete */
  uint64_t delivery; /* the one that stopped it (PUMP_TOO_LARGE, PUMP_MALFORMED, PUMP_ALONE) */
  uint32_t seen, seen_max; /* events, and how many make it stop (PUMP_FULL) */
} pump_t;

/* Why pump_events came back: nothing left; an event for Python is at the head; take what is in the
 * arrays and call again; a message over message_bytes_max; a message that is no AMQP message; a
 * message that does not fit into the arrays alone; a message to a coordinator of transactions. */
#define PUMP_IDLE 0
#define PUMP_EVENT 1
#define PUMP_FULL 2
#define PUMP_TOO_LARGE 3
#define PUMP_MALFORMED 4
#define PUMP_ALONE 5
#define PUMP_COMMAND 6
int pump_events(uint64_t collector, pump_t *p); /* the arrays are empty when it begins */
/* Receive the delivery that stopped the pump with PUMP_ALONE into `room` bytes; 0 or PUMP_MALFORMED. */
int pump_receive_alone(pump_t *p, char *bytes, size_t room);
/* Take the message that stopped the pump with PUMP_COMMAND: all of its bytes. */
void pump_take(uint64_t delivery, char *bytes, size_t room);
/* Settle as outcomes in a transaction. Zeros are skipped. */
void pump_settle_in(const uint64_t *deliveries, uint32_t count, uint64_t transaction,
                    uint64_t outcome);
/* A transaction was declared by this delivery, and has this number. */
void pump_declared(uint64_t delivery, uint64_t transaction);
/* Take back the outcome that deliveries got in a transaction: their peer may give another. `settled`
 * is 1 for deliveries that their peer has settled since: it can't give them another outcome. */
void pump_restore(const uint64_t *deliveries, uint32_t count, uint64_t delivered_at, uint8_t *settled);
/* Settle; with the state given, or (state 0) with the outcome that the peer gave first. Zeros are
 * skipped. */
void pump_settle(const uint64_t *deliveries, uint32_t count, uint64_t state);
/* The deliveries of an outgoing link without an outcome, in the order of delivery: sequences, and the
 * times of pump_send. Returns their number; at most `room` are written. */
uint64_t pump_held(uint64_t link, uint64_t *sequences, uint64_t *times, uint64_t room);
/* Give an outcome, with a modified one's fields, in a transaction (0: in none), and settle or
 * (settles 0) leave that to the other side. Zeros are skipped. */
void pump_dispose(const uint64_t *deliveries, uint32_t count, uint64_t state, int failed,
                  int undeliverable, int settles, uint64_t transaction);
/* How many of these deliveries, from the first one on, their other side has settled. */
uint32_t pump_settled(const uint64_t *deliveries, uint32_t count);
/* The tags of incoming deliveries, each of 8 bytes, as the numbers that pump_send writes; UINT64_MAX
 * for a tag of another size and for a zero among the deliveries. */
void pump_tags(const uint64_t *deliveries, uint32_t count, uint64_t *tags);
/* Accept no message of this link on receipt: another peer decides its outcome. */
void pump_accept_late(uint64_t link);
/* offsets[0] = 0, offsets[i+1] = offsets[i] + lengths[i]. */
void pump_offsets(const uint32_t *lengths, uint32_t count, int32_t *offsets);
/* Hand `size` bytes from the peer to the engine; 0 when it takes no more: the peer has closed, or its
 * bytes can't be read. */
int pump_input(uint64_t transport, const char *bytes, size_t size);
/* How many bytes for the peer the engine has; below 0 as above. */
int64_t pump_pending(uint64_t transport);
/* 0 if `size` bytes are a message, whose fields are filled in; else PUMP_MALFORMED. */
int pump_inspect(const char *message, size_t size, pump_t *p, uint32_t slot);
/* cdef:end */

static int64_t now_of(pump_t *p) {
  if (!p->now) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    p->now = (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
  }
  return p->now;
}

/* Past all short sections of the body at `at` that are of this kind: a message may have millions. */
static size_t past_alike(const uint8_t *m, size_t size, size_t at, int code) {
  while (size - at >= 5 && m[at] == F_DESCRIBED && m[at + 1] == F_SMALLULONG &&
         m[at + 2] == code) {
    size_t end = at + 4;
    if (m[at + 3] == F_VBIN8 || m[at + 3] == F_LIST8) end += 1 + (size_t)m[at + 4];
    else if (m[at + 3] != F_LIST0) break;
    if (end > size) break;
    at = end;
  }
  return at;
}

int pump_inspect(const char *message, size_t size, pump_t *p, uint32_t slot) {
  const uint8_t *m = (const uint8_t *)message;
  header_t h = {.priority = 4};
  properties_t said = {0};
  annotations_t annotated = {0};
  int before = 0;
  if (!size) return PUMP_MALFORMED;
  for (size_t at = 0; at < size;) {
    size_t value;
    int code = section(m, size, at, &value);
    if (!code || code < before) return PUMP_MALFORMED;
    if (code == before && code != DATA && code != SEQUENCE) return PUMP_MALFORMED;
    size_t end = value_end(m, size, value);
    if (!end) return PUMP_MALFORMED;
    if (code == HEADER && !read_header(m, end, value, &h)) return PUMP_MALFORMED;
    if (code == MESSAGE_ANNOTATIONS) annotated = read_annotations(m, end, value);
    if (code == PROPERTIES && !read_properties(m, end, value, &said)) return PUMP_MALFORMED;
    before = code;
    at = code == DATA || code == SEQUENCE ? past_alike(m, size, end, code) : end;
  }
  const place_t id = annotated.id.size ? annotated.id : said.id;
  p->lengths[slot] = (uint32_t)size;
  p->durable[slot] = (uint8_t)h.durable;
  p->priority[slot] = (uint8_t)(h.priority > 9 ? 9 : h.priority);
  p->ttl[slot] = h.ttl;
  p->to_at[slot] = said.to.at;
  p->to_size[slot] = said.to.size;
  p->id_at[slot] = id.at;
  p->id_size[slot] = id.size;
  p->expires_at[slot] = h.ttl || said.expiry ? expiry_of(h.ttl, said.expiry, now_of(p)) : 0;
  p->deliver_at[slot] = annotated.time || annotated.delay ? delivery_of(&annotated, now_of(p)) : 0;
  p->expiring += p->expires_at[slot] != 0;
  p->delayed += p->deliver_at[slot] != 0;
  p->special += h.priority != 4 || p->expires_at[slot] || p->deliver_at[slot] || group_of(m, size);
  return 0;
}

/* Whether its messages name their destinations themselves, and may be refused. */
static int relayed(pn_delivery_t *d) {
  return !pn_terminus_get_address(pn_link_remote_target(pn_delivery_link(d)));
}

void pump_accept_late(uint64_t link) {
  pn_link_set_context((pn_link_t *)(uintptr_t)link, (void *)(uintptr_t)1);
}

static int accepts_late(pn_delivery_t *d) { return pn_link_get_context(pn_delivery_link(d)) != NULL; }

/* A delivery's transaction and the outcome in it, from a transactional state as the walk lets it pass:
 * [id of 8 bytes] or [id of 8 bytes, described outcome]. */
enum { COORDINATOR_TYPE = 3 }; /* of a terminus, as Proton counts them */

static uint64_t read_transaction(pn_disposition_t *said, pump_outcome *o) {
  pn_data_t *data = pn_disposition_data(said);
  uint64_t number = 0;
  pn_data_rewind(data);
  pn_data_next(data);
  pn_data_enter(data);
  pn_data_next(data);
  pn_bytes_t id = pn_data_get_binary(data);
  if (id.size == sizeof number) {
    memcpy(&number, id.start, sizeof number);
    number = __builtin_bswap64(number);
  } else {
    number = UINT64_MAX; /* none of ours; another broker's have other sizes */
  }
  if (!o || !pn_data_next(data) || !pn_data_enter(data) || !pn_data_next(data)) return number;
  o->state = pn_data_get_ulong(data);
  if (o->state == MODIFIED && pn_data_next(data) && pn_data_enter(data) && pn_data_next(data)) {
    o->failed = pn_data_get_bool(data);
    o->undeliverable = pn_data_next(data) && pn_data_get_bool(data);
  }
  return number;
}

static uint64_t transaction_of(pn_delivery_t *d) {
  return read_transaction(pn_delivery_remote(d), NULL);
}

/* Its own state will be [id] or [id, outcome], with fields if it is MODIFIED, when it is told. */
static void put_outcome_in(pn_delivery_t *d, uint64_t number, uint64_t outcome, int failed,
                           int undeliverable) {
  pn_data_t *data = pn_disposition_data(pn_delivery_local(d));
  uint64_t id = __builtin_bswap64(number);
  pn_data_clear(data);
  pn_data_put_list(data);
  pn_data_enter(data);
  pn_data_put_binary(data, (pn_bytes_t){sizeof id, (const char *)&id});
  if (outcome) {
    pn_data_put_described(data);
    pn_data_enter(data);
    pn_data_put_ulong(data, outcome);
    pn_data_put_list(data);
    if (outcome == MODIFIED) {
      pn_data_enter(data);
      pn_data_put_bool(data, failed);
      pn_data_put_bool(data, undeliverable);
      pn_data_exit(data);
    }
    pn_data_exit(data);
  }
  pn_data_exit(data);
}

static void write_outcome_in(pn_delivery_t *d, uint64_t state, uint64_t number, uint64_t outcome,
                             int failed, int undeliverable) {
  put_outcome_in(d, number, outcome, failed, undeliverable);
  pn_delivery_update(d, state);
}

static void write_transaction(pn_delivery_t *d, uint64_t state, uint64_t number, uint64_t outcome) {
  write_outcome_in(d, state, number, outcome, 0, 0);
}

/* The delivery's message lies in the arrays' slot: keep it for its accept, or settle it now. */
static void keep(pump_t *p, pn_delivery_t *d, uint32_t slot) {
  uint64_t unsettled = 0;
  if (pn_delivery_settled(d)) {
    pn_delivery_settle(d);
  } else if (!p->durable[slot] && !p->late && !p->transaction && !relayed(d) && !accepts_late(d)) {
    /* accepted on receipt */
    pn_delivery_update(d, ACCEPTED);
    pn_delivery_settle(d);
  } else {
    unsettled = (uint64_t)(uintptr_t)d;
    p->to_settle++;
  }
  p->deliveries[slot] = unsettled;
}

/* An incoming delivery's context says that it was taken: what its sender says of it afterwards (that
 * it has settled it, say) is no message, and its outcome may be under way. */
static void taken(pn_delivery_t *d) { pn_delivery_set_context(d, (void *)(uintptr_t)1); }

/* Whether its messages are commands to a coordinator of transactions. */
static int commands(pn_link_t *link) {
  return pn_terminus_get_type(pn_link_remote_target(link)) == COORDINATOR_TYPE;
}

/* What comes on a link that we have ended, until its peer detaches it, is given back at once, or the
 * engine would keep it. Of a message that goes on only the bytes go: what follows of it the engine
 * would count for ever. */
enum { LOCAL_CLOSED = 4 };

static void discard(pn_delivery_t *d, pn_link_t *link) {
  char bytes[4096];
  while (pn_link_recv(link, bytes, sizeof bytes) > 0) continue;
  if (pn_delivery_partial(d)) return;
  if (!pn_delivery_settled(d)) pn_delivery_update(d, RELEASED);
  pn_delivery_settle(d);
}

/* The state that the frame scanner gives to a delivery which its sender resumes: no peer can give it.
 * No delivery outlives its link here, so there is none to resume, and its bytes may be a rest. */
enum { RESUMED = DECLARED };

static int incoming(pump_t *p, pn_delivery_t *d, pn_link_t *link) {
  if (pn_delivery_get_context(d)) { pn_delivery_clear(d); return 0; }
  if (pn_link_state(link) & LOCAL_CLOSED) { discard(d, link); return 0; }
  if (pn_delivery_remote_state(d) == RESUMED && !pn_delivery_aborted(d)) {
    if (!pn_delivery_partial(d)) pn_link_flow(link, 1);
    discard(d, link);
    return 0;
  }
  if (pn_delivery_aborted(d)) { /* no message; its sender may send another in its place */
    taken(d);
    pn_delivery_settle(d);
    pn_link_flow(link, 1);
    return 0;
  }
  size_t size = pn_delivery_pending(d);
  p->delivery = (uint64_t)(uintptr_t)d;
  int other = p->count && p->link != (uint64_t)(uintptr_t)link;
  if (size > p->message_bytes_max) return p->count ? PUMP_FULL : PUMP_TOO_LARGE;
  if (pn_delivery_partial(d)) { p->unfinished = 1; return 0; }
  if ((!p->count || other) && commands(link))
    return p->count || p->outcomes_count ? PUMP_FULL : PUMP_COMMAND;
  uint64_t transaction =
      pn_delivery_remote_state(d) == TRANSACTIONAL_STATE ? transaction_of(d) : 0;
  other |= p->count && p->transaction != transaction;
  if (other || p->count == p->room) return PUMP_FULL;
  if (p->bytes_used + size > p->bytes_room) return p->count ? PUMP_FULL : PUMP_ALONE;
  p->link = (uint64_t)(uintptr_t)link;
  p->transaction = transaction;
  char *to = p->bytes + p->bytes_used;
  /* Only looked at so far: a malformed one stops the pump with its bytes still in the delivery. */
  pn_link_recv(link, to, size);
  pn_link_advance(link);
  taken(d);
  if (pump_inspect(to, size, p, p->count)) {
    /* Its bytes are gone from the engine; the caller answers the delivery after the run before. */
    return PUMP_MALFORMED;
  }
  keep(p, d, p->count);
  p->count++;
  p->bytes_used += size;
  return 0;
}

/* A run of this many at even distances isn't given up for what comes behind it. */
enum { REGULAR = 8 };

static void add_outcome(pump_t *p, const pump_outcome *o) {
  p->settled[p->settled_count++] = o->first;
  if (p->outcomes_count) {
    pump_outcome *last = p->outcomes + p->outcomes_count - 1;
    uint64_t expected = last->first + last->step * last->count;
    if (last->link == o->link && last->transaction == o->transaction && last->delivered_at == o->delivered_at && last->state == o->state &&
        last->failed == o->failed && last->undeliverable == o->undeliverable &&
        last->confirm == o->confirm) {
      if (last->count == 1 && o->first > last->first) {
        last->step = o->first - last->first;
        last->count = 2;
        return;
      }
      if (last->step && o->first == expected) { last->count++; return; }
      int irregular = !last->step || last->count < REGULAR;
      if (irregular && o->first > p->settled[p->settled_count - 2]) {
        last->step = 0;
        last->count++;
        return;
      }
    }
  }
  p->outcomes[p->outcomes_count++] = *o;
}

/* The sequence of an outgoing delivery: pump_send's own tag, 8 bytes. */
static uint64_t sequence_of(pn_delivery_t *d) {
  uint64_t tag;
  memcpy(&tag, pn_delivery_tag(d).start, sizeof tag);
  return __builtin_bswap64(tag);
}

/* The context of a delivery whose outcome is on its way to the disk, or waits for the end of its
 * transaction: RECORDED, the state's descriptor, by which it is answered whatever its peer says of it
 * meanwhile, and its time. */
#define RECORDED (UINT64_C(1) << 63)
enum { STATE_AT = 55 };

static int on_its_way(uint64_t context) { return !context || context >= RECORDED; }

static uint64_t recorded_state(uint64_t context) {
  return context >= RECORDED ? context >> STATE_AT & 0xff : 0;
}

uint64_t pump_held(uint64_t link, uint64_t *sequences, uint64_t *times, uint64_t room) {
  uint64_t count = 0;
  pn_delivery_t *d = pn_unsettled_head((pn_link_t *)(uintptr_t)link);
  PyThreadState *others = PyEval_SaveThread();
  for (; d; d = pn_unsettled_next(d)) {
    uint64_t delivered_at = (uint64_t)(uintptr_t)pn_delivery_get_context(d);
    if (on_its_way(delivered_at)) continue;
    if (count < room) {
      sequences[count] = sequence_of(d);
      times[count] = delivered_at;
    }
    count++;
  }
  take_back(others);
  return count;
}

/* Keep the outcome that a peer has given to a delivery for our answer, without sending it. */
static void record(pn_delivery_t *d, uint64_t state, const pump_outcome *o) {
  pn_disposition_t *local = pn_delivery_local(d);
  if (state == TRANSACTIONAL_STATE) {
    put_outcome_in(d, o->transaction, o->state, (int)o->failed, (int)o->undeliverable);
  } else if (state == MODIFIED) {
    pn_disposition_set_failed(local, o->failed);
    pn_disposition_set_undeliverable(local, o->undeliverable);
  }
  pn_delivery_set_context(d, (void *)(uintptr_t)(RECORDED | state << STATE_AT | o->delivered_at));
}

/* Whether a delivery that has an outcome got one in a transaction now, but not in that of before. That
 * transaction can't be committed: the caller is told, and finds that it doesn't hold the message. */
static int in_another(pn_delivery_t *d, uint64_t state, uint64_t context) {
  if (state != TRANSACTIONAL_STATE || !context) return 0;
  return recorded_state(context) != TRANSACTIONAL_STATE ||
         read_transaction(pn_delivery_local(d), NULL) != transaction_of(d);
}

static int outgoing(pump_t *p, pn_delivery_t *d, pn_link_t *link) {
  uint64_t state = pn_delivery_remote_state(d);
  int settled = pn_delivery_settled(d);
  uint64_t delivered_at = (uint64_t)(uintptr_t)pn_delivery_get_context(d);
  if (!settled && (state < ACCEPTED || state > MODIFIED) && state != TRANSACTIONAL_STATE) { pn_delivery_clear(d); return 0; }
  int late = on_its_way(delivered_at);
  if (late && !in_another(d, state, delivered_at)) { pn_delivery_clear(d); return 0; }
  if (p->outcomes_count == p->outcomes_room || p->unsettled_count == p->unsettled_room ||
      p->settled_count == p->settled_room)
    return PUMP_FULL;
  pump_outcome o = {.link = (uint64_t)(uintptr_t)link, .delivered_at = delivered_at, .step = 1, .count = 1,
                    .state = state >= ACCEPTED && state <= MODIFIED ? state : 0, .confirm = !settled};
  if (state == TRANSACTIONAL_STATE) o.transaction = read_transaction(pn_delivery_remote(d), &o);
  if (p->reasons && o.state == REJECTED) o.confirm = 1, settled = 0;
  if (!settled && !o.state) { pn_delivery_clear(d); return 0; }
  if (state == MODIFIED) {
    o.failed = pn_disposition_is_failed(pn_delivery_remote(d));
    o.undeliverable = pn_disposition_is_undeliverable(pn_delivery_remote(d));
  }
  o.first = sequence_of(d);
  if (late) {
    o.confirm = 0;
    o.delivered_at &= (UINT64_C(1) << STATE_AT) - 1;
  }
  add_outcome(p, &o);
  if (late) {
    pn_delivery_clear(d);
  } else if (settled) {
    pn_delivery_settle(d);
  } else {
    record(d, state, &o);
    pn_delivery_clear(d);
    p->unsettled[p->unsettled_count++] = (uint64_t)(uintptr_t)d;
  }
  return 0;
}

static int eat(pn_collector_t *c, pump_t *p) {
  pn_event_t *event;
  p->count = p->to_settle = p->outcomes_count = p->unsettled_count = p->settled_count = 0;
  p->expiring = p->delayed = p->special = p->seen = 0;
  p->bytes_used = 0;
  while ((event = pn_collector_peek(c))) {
    int type = pn_event_type(event);
    if (type == p->type_delivery) {
      pn_delivery_t *d = pn_event_delivery(event);
      pn_link_t *link = pn_delivery_link(d);
      int stop = pn_link_is_sender(link) ? outgoing(p, d, link) : incoming(p, d, link);
      if (stop && stop != PUMP_FULL)
        p->link = p->count ? p->link : (uint64_t)(uintptr_t)link;
      if (stop && stop != PUMP_MALFORMED) return stop;
      pn_collector_pop(c);
      if (stop) return stop;
    } else {
      if (type < 64 && (p->event_mask >> type & 1)) return PUMP_EVENT;
      pn_collector_pop(c);
    }
    if (++p->seen >= p->seen_max) return PUMP_FULL;
  }
  return PUMP_IDLE;
}

int pump_events(uint64_t collector, pump_t *p) {
  PyThreadState *others = let_others(p->brought, LONG_BYTES);
  int stop = eat((pn_collector_t *)(uintptr_t)collector, p);
  p->credit = p->count ? pn_link_credit((pn_link_t *)(uintptr_t)p->link) : 0;
  take_back(others);
  return stop;
}

int pump_receive_alone(pump_t *p, char *bytes, size_t room) {
  pn_delivery_t *d = (pn_delivery_t *)(uintptr_t)p->delivery;
  pn_link_t *link = pn_delivery_link(d);
  size_t size = pn_delivery_pending(d);
  if (size > room) return PUMP_TOO_LARGE;
  pn_link_recv(link, bytes, size);
  pn_link_advance(link);
  taken(d);
  p->link = (uint64_t)(uintptr_t)link;
  p->transaction = pn_delivery_remote_state(d) == TRANSACTIONAL_STATE ? transaction_of(d) : 0;
  p->expiring = p->delayed = p->special = 0;
  if (pump_inspect(bytes, size, p, 0)) return PUMP_MALFORMED;
  keep(p, d, 0);
  p->count = 1;
  p->credit = pn_link_credit(link);
  return 0;
}

void pump_take(uint64_t delivery, char *bytes, size_t room) {
  pn_delivery_t *d = (pn_delivery_t *)(uintptr_t)delivery;
  pn_link_t *link = pn_delivery_link(d);
  pn_link_recv(link, bytes, room);
  pn_link_advance(link);
  taken(d);
}

void pump_declared(uint64_t delivery, uint64_t transaction) {
  pn_delivery_t *d = (pn_delivery_t *)(uintptr_t)delivery;
  write_transaction(d, DECLARED, transaction, 0);
  pn_delivery_settle(d);
}

void pump_settle_in(const uint64_t *deliveries, uint32_t count, uint64_t transaction,
                    uint64_t outcome) {
  for (uint32_t i = 0; i < count; i++) {
    pn_delivery_t *d = (pn_delivery_t *)(uintptr_t)deliveries[i];
    if (!d) continue;
    write_transaction(d, TRANSACTIONAL_STATE, transaction, outcome);
    pn_delivery_settle(d);
  }
}

void pump_restore(const uint64_t *deliveries, uint32_t count, uint64_t delivered_at, uint8_t *settled) {
  for (uint32_t i = 0; i < count; i++) {
    pn_delivery_t *d = (pn_delivery_t *)(uintptr_t)deliveries[i];
    settled[i] = (uint8_t)pn_delivery_settled(d);
    if (settled[i]) pn_delivery_settle(d);
    else pn_delivery_set_context(d, (void *)(uintptr_t)delivered_at);
  }
}

void pump_settle(const uint64_t *deliveries, uint32_t count, uint64_t state) {
  PyThreadState *others = let_others(count, LONG_MESSAGES);
  for (uint32_t i = 0; i < count; i++) {
    pn_delivery_t *d = (pn_delivery_t *)(uintptr_t)deliveries[i];
    if (!d) continue;
    uint64_t context = (uint64_t)(uintptr_t)pn_delivery_get_context(d);
    uint64_t with = state ? state : recorded_state(context);
    if (with) pn_delivery_update(d, with);
    pn_delivery_settle(d);
  }
  take_back(others);
}

void pump_dispose(const uint64_t *deliveries, uint32_t count, uint64_t state, int failed,
                  int undeliverable, int settles, uint64_t transaction) {
  for (uint32_t i = 0; i < count; i++) {
    pn_delivery_t *d = (pn_delivery_t *)(uintptr_t)deliveries[i];
    if (!d) continue;
    if (state && transaction) {
      write_outcome_in(d, TRANSACTIONAL_STATE, transaction, state, failed, undeliverable);
      if (settles) pn_delivery_settle(d);
      continue;
    }
    if (state == MODIFIED) {
      pn_disposition_set_failed(pn_delivery_local(d), failed);
      pn_disposition_set_undeliverable(pn_delivery_local(d), undeliverable);
    }
    if (state) pn_delivery_update(d, state);
    if (settles) pn_delivery_settle(d);
  }
}

uint32_t pump_settled(const uint64_t *deliveries, uint32_t count) {
  uint32_t settled = 0;
  while (settled < count && pn_delivery_settled((pn_delivery_t *)(uintptr_t)deliveries[settled]))
    settled++;
  return settled;
}

void pump_tags(const uint64_t *deliveries, uint32_t count, uint64_t *tags) {
  for (uint32_t i = 0; i < count; i++) {
    pn_delivery_t *d = (pn_delivery_t *)(uintptr_t)deliveries[i];
    tags[i] = d && pn_delivery_tag(d).size == sizeof *tags ? sequence_of(d) : UINT64_MAX;
  }
}

void pump_offsets(const uint32_t *lengths, uint32_t count, int32_t *offsets) {
  int32_t at = 0;
  offsets[0] = 0;
  for (uint32_t i = 0; i < count; i++) offsets[i + 1] = at += (int32_t)lengths[i];
}

int pump_input(uint64_t transport, const char *bytes, size_t size) {
  pn_transport_t *t = (pn_transport_t *)(uintptr_t)transport;
  size_t taken = 0;
  while (taken < size) {
    ssize_t n = pn_transport_push(t, bytes + taken, size - taken);
    if (n <= 0) break;
    taken += (size_t)n;
  }
  return taken == size && pn_transport_capacity(t) >= 0;
}

int64_t pump_pending(uint64_t transport) {
  return pn_transport_pending((pn_transport_t *)(uintptr_t)transport);
}

/* Drop events that the caller doesn't want, and those of one type, up to a wanted one; whether
 * there is none left. */
static int pass_over(pn_collector_t *c, const pump_t *p, int unwanted) {
  for (pn_event_t *event; (event = pn_collector_peek(c)); pn_collector_pop(c)) {
    int type = pn_event_type(event);
    int wanted = type == p->type_delivery || (type < 64 && p->event_mask >> type & 1);
    if (wanted && type != unwanted) return 0;
  }
  return 1;
}
