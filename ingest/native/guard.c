/* The guard before Proton's engine, which trusts its peers: no frame reaches it that the states of
 * the peer's connection, session and link don't allow.
 *
 * The rules are tables, generated from pipeline/amqp/endpoint_states.py: `connection_rules`,
 * `session_rules`, `link_rules`, `field_rules`. This file applies them: it keeps the states, by channel
 * and handle, in a table of the caller's, and reads the fields that bear on them. A field that the
 * engine would read otherwise is refused.
 *
 * Performatives: AMQP 1.0 part 2, section 2.7.
 */

/* cdef:begin */
/* A peer's session (its handle is NO_HANDLE) or link. */
typedef struct {
  uint64_t key;  /* channel and handle */
  uint64_t name; /* of a link: a hash of its name and role; of a session: the peer's handle-max */
  uint32_t id;   /* of a session: the delivery-id that must come next; of a link: that of the delivery
                  * which has begun on it */
  uint32_t limit; /* of a session: the furthest end of its peer's incoming window until now */
  uint8_t state; /* 0: the place is free */
  uint8_t begun; /* of a session: it has had a delivery-id */
} pump_endpoint;

/* A peer's endpoints: `used` of `room` (a power of two), `links` of them links. */
typedef struct {
  pump_endpoint *endpoints;
  uint32_t room, used, links, links_max;
  uint32_t channel_max;
  uint8_t state; /* of the connection */
  /* The last frame, and why it was refused. */
  int violation, code;
  uint32_t channel, handle, number;
  /* Of an attach: the number of handles that its peer allows for our side of the session. */
  uint64_t peer_handles;
  /* Of a disposition: the sender of its deliveries (1: we), the first and the last one. */
  uint8_t role;
  uint32_t first, last;
  /* The places of the last transfer's session and link. */
  uint32_t session_at, link_at;
  /* The last frame was a whole delivery on the link with this key less one, and changed no state: so
   * will the next one, if its delivery-id is the one that comes next. 0: it wasn't. */
  uint64_t again;
} pump_guard;

/* Move all into a larger, empty table of `room` endpoints. */
void pump_guard_move(pump_guard *g, pump_endpoint *endpoints, uint32_t room);
/* cdef:end */

/* The guard's verdict on a frame. */
enum { ADMITTED, VIOLATED, NO_ROOM };
#define NO_HANDLE 0xffffffffu

static uint32_t place_of(const pump_guard *g, uint64_t key) {
  return (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & (g->room - 1);
}

static uint64_t key_of(uint32_t channel, uint32_t handle) {
  return (uint64_t)channel << 32 | handle;
}

/* The place of an endpoint, or the free place where it would be. */
static uint32_t locate(const pump_guard *g, uint64_t key) {
  uint32_t at = place_of(g, key);
  while (g->endpoints[at].state && g->endpoints[at].key != key) at = (at + 1) & (g->room - 1);
  return at;
}

/* The same, for a caller that mostly wants the same endpoint as the last time. */
static inline pump_endpoint *endpoint(pump_guard *g, uint64_t key, uint32_t *last) {
  pump_endpoint *e = g->endpoints + *last;
  if (e->key == key && e->state) return e;
  e = g->endpoints + (*last = locate(g, key));
  return e;
}

/* Free a place, and move later endpoints up that aren't at their own place. */
static void release(pump_guard *g, uint32_t free) {
  uint32_t mask = g->room - 1, at = free;
  g->links -= (uint32_t)g->endpoints[free].key != NO_HANDLE;
  g->used--;
  for (;;) {
    at = (at + 1) & mask;
    if (!g->endpoints[at].state) break;
    uint32_t home = place_of(g, g->endpoints[at].key);
    if (((at - home) & mask) < ((at - free) & mask)) continue;
    g->endpoints[free] = g->endpoints[at];
    free = at;
  }
  g->endpoints[free] = (pump_endpoint){0};
}

void pump_guard_move(pump_guard *g, pump_endpoint *endpoints, uint32_t room) {
  pump_endpoint *before = g->endpoints;
  uint32_t count = g->room;
  g->endpoints = endpoints;
  g->room = room;
  g->again = 0;
  for (uint32_t i = 0; i < count; i++)
    if (before[i].state) endpoints[locate(g, before[i].key)] = before[i];
  g->session_at = g->link_at = 0;
}

static int violated(pump_guard *g, int violation, uint32_t number) {
  g->violation = violation;
  g->number = number;
  return VIOLATED;
}

/* The fields of a performative that bear on the rules: their values, and which are there. */
typedef struct {
  uint64_t value[FIELDS_MOST];
  uint32_t there;
} fields_t;

static int has(const fields_t *f, int field) { return f->there >> field & 1; }

/* The end of a field, 0 if it is none. The engine would read a twice described value as two fields. */
static inline size_t field_end(const uint8_t *m, size_t end, size_t at) {
  size_t width = at < end ? fixed_bytes[m[at] >> 4] : 0;
  if (width) return at + width <= end ? at + width : 0;
  if (at < end && m[at] == F_DESCRIBED) {
    if (at + 1 >= end || m[at + 1] == F_DESCRIBED) return 0;
    at = value_end(m, end, at + 1);
    if (!at || at >= end || m[at] == F_DESCRIBED) return 0;
  }
  return value_end(m, end, at);
}

/* A field's value if it is of the type; of a text a hash, of bytes nothing. */
static int field_value(const uint8_t *m, size_t at, size_t end, int type, uint64_t *value) {
  uint8_t code = m[at];
  *value = 0;
  switch (type) {
    case TYPE_BOOLEAN:
      *value = code == F_TRUE || (code == F_BOOLEAN && m[at + 1]);
      return code == F_TRUE || code == F_FALSE || code == F_BOOLEAN;
    case TYPE_USHORT:
      if (code != F_USHORT) return 0;
      *value = (uint64_t)m[at + 1] << 8 | m[at + 2];
      return 1;
    case TYPE_UINT:
      *value = uint_value(m, at, 0);
      return code == F_UINT0 || code == F_SMALLUINT || code == F_UINT;
    case TYPE_BINARY:
      return code == F_VBIN8 || code == F_VBIN32;
    default: /* FNV-1a */
      *value = 0xcbf29ce484222325u;
      if (!is_string(m, at)) return 0;
      for (at = content_of(code, at); at < end; at++) *value = (*value ^ m[at]) * 0x100000001b3u;
      return 1;
  }
}

/* Read the list that is a performative, if it ends (`end` isn't 0). The engine goes by a list's size
 * and not by its count, so both must say the same. */
static int read_performative(const uint8_t *m, size_t end, size_t at, int code, fields_t *f) {
  const field_rule *rule = field_rules[code - OPEN];
  int rules = field_counts[code - OPEN], k = 0;
  uint32_t count;
  size_t field = end ? list_fields(m, end, at, &count) : 0, next;
  f->there = 0;
  if (!field) return 0;
  for (uint32_t i = 0; i < count; i++, field = next) {
    if (!(next = field_end(m, end, field))) return 0;
    if (k == rules || rule[k].place != i) continue;
    if (!is_null(m, field)) {
      if (!field_value(m, field, next, rule[k].type, f->value + k)) return 0;
      f->there |= 1u << k;
    }
    k++;
  }
  if (field != end) return 0;
  for (k = 0; k < rules; k++)
    if (rule[k].mandatory && !has(f, k)) return 0;
  return 1;
}

/* Whether a link of this name and role is attached in the session. */
static int name_in_use(const pump_guard *g, uint32_t channel, uint64_t name) {
  for (uint32_t i = 0; i < g->room; i++) {
    const pump_endpoint *e = g->endpoints + i;
    if (e->state && e->key >> 32 == channel && (uint32_t)e->key != NO_HANDLE && e->name == name)
      return 1;
  }
  return 0;
}

/* A transfer on a link whose state allows it: its delivery's id is the next one of its session, or
 * that of the delivery which it goes on with. */
static int admit_delivery(pump_guard *g, pump_endpoint *session, pump_endpoint *link, int has_id,
                          uint32_t id, int has_tag) {
  if (link->state == LINK_SENDING)
    return has_id && id != link->id ? violated(g, VIOLATION_OTHER_DELIVERY, id) : ADMITTED;
  if (!has_id) return violated(g, VIOLATION_NO_DELIVERY_ID, 0);
  if (!has_tag) return violated(g, VIOLATION_NO_DELIVERY_TAG, id);
  if (session->begun && id != session->id) return violated(g, VIOLATION_DELIVERY_ID, id);
  session->begun = 1;
  session->id = id + 1;
  link->id = id;
  return ADMITTED;
}

/* Further conditions of a begin or an attach, which make an endpoint. */
static int admit_endpoint(pump_guard *g, const fields_t *f, int kind, uint64_t name) {
  if (kind == KIND_BEGIN) {
    if (g->channel > g->channel_max) return violated(g, VIOLATION_CHANNEL_MAX, 0);
    if (has(f, BEGIN_REMOTE_CHANNEL))
      return violated(g, VIOLATION_REMOTE_CHANNEL, (uint32_t)f->value[BEGIN_REMOTE_CHANNEL]);
  } else {
    if (g->links == 2 * g->links_max) return violated(g, VIOLATION_LINKS_MAX, 0);
    if (name_in_use(g, g->channel, name)) return violated(g, VIOLATION_NAME_IN_USE, 0);
  }
  return 2 * (g->used + 1) > g->room ? NO_ROOM : ADMITTED;
}

/* A session's end takes its links with it. */
static void end_session(pump_guard *g, uint32_t channel) {
  for (uint32_t i = 0; i < g->room;)
    if (g->endpoints[i].state && g->endpoints[i].key >> 32 == channel) release(g, i);
    else i++;
}

/* Judge a disposition in an existing session. */
static int admit_disposition(pump_guard *g, const pump_endpoint *session, int role, uint32_t first,
                             uint32_t last) {
  g->role = (uint8_t)role;
  g->first = first;
  g->last = last;
  if (last - first > INT32_MAX) return violated(g, VIOLATION_RANGE, last);
  if (!role && (!session->begun || last - session->id <= INT32_MAX))
    return violated(g, VIOLATION_NEVER_SENT, last);
  return ADMITTED;
}

/* The kind of frame of a performative. */
static int kind_of(int code, const fields_t *f) {
  switch (code) {
    case OPEN: return KIND_OPEN;
    case BEGIN: return KIND_BEGIN;
    case ATTACH: return f->value[ATTACH_ROLE] ? KIND_ATTACH_RECEIVER : KIND_ATTACH_SENDER;
    case FLOW: return has(f, FLOW_HANDLE) ? KIND_LINK_FLOW : KIND_SESSION_FLOW;
    case TRANSFER:
      return has(f, TRANSFER_MORE) && f->value[TRANSFER_MORE] &&
                     !(has(f, TRANSFER_ABORTED) && f->value[TRANSFER_ABORTED])
                 ? KIND_TRANSFER_MORE : KIND_TRANSFER_LAST;
    case DISPOSITION: return KIND_DISPOSITION;
    case DETACH: return KIND_DETACH;
    case END: return KIND_END;
    default: return KIND_CLOSE;
  }
}

/* Whether a performative is about a link, and the link's handle. */
static int has_handle(int kind, const fields_t *f, uint32_t *handle) {
  switch (kind) {
    case KIND_ATTACH_SENDER:
    case KIND_ATTACH_RECEIVER: *handle = (uint32_t)f->value[ATTACH_HANDLE]; return 1;
    case KIND_LINK_FLOW: *handle = (uint32_t)f->value[FLOW_HANDLE]; return 1;
    case KIND_TRANSFER_MORE:
    case KIND_TRANSFER_LAST: *handle = (uint32_t)f->value[TRANSFER_HANDLE]; return 1;
    case KIND_DETACH: *handle = (uint32_t)f->value[DETACH_HANDLE]; return 1;
    default: *handle = NO_HANDLE; return 0;
  }
}

/* Whether no link can have the handle of a frame that is about a link. */
static int handle_of_nobody(pump_guard *g, int kind) {
  int attaches = kind == KIND_ATTACH_SENDER || kind == KIND_ATTACH_RECEIVER;
  if (g->handle <= HANDLE_MAX) return ADMITTED;
  return violated(g, attaches ? VIOLATION_HANDLE_MAX : VIOLATION_UNATTACHED, 0);
}

/* A frame of a session, in whose state and whose link's it must be allowed. Nothing has changed
 * unless it is admitted. */
static int admit_in_session(pump_guard *g, int kind, const fields_t *f) {
  int on_link = has_handle(kind, f, &g->handle);
  uint64_t key = key_of(g->channel, NO_HANDLE);
  pump_endpoint *session = endpoint(g, key, &g->session_at), *link = NULL;
  int next = session_rules[kind][session->state], linked = LINK_UNATTACHED, said = ADMITTED;
  if (next & REFUSED) return violated(g, next & ~REFUSED, 0);
  if (on_link) {
    if (handle_of_nobody(g, kind) != ADMITTED) return VIOLATED;
    link = endpoint(g, key_of(g->channel, g->handle), &g->link_at);
    linked = link_rules[kind][link->state];
    if (linked & REFUSED) return violated(g, linked & ~REFUSED, 0);
  }
  uint64_t name = f->value[ATTACH_NAME] ^ (kind == KIND_ATTACH_SENDER);
  if (kind == KIND_BEGIN || kind == KIND_ATTACH_SENDER || kind == KIND_ATTACH_RECEIVER)
    said = admit_endpoint(g, f, kind, name);
  else if (kind == KIND_TRANSFER_MORE || kind == KIND_TRANSFER_LAST)
    said = admit_delivery(g, session, link, has(f, TRANSFER_DELIVERY_ID),
                          (uint32_t)f->value[TRANSFER_DELIVERY_ID], has(f, TRANSFER_DELIVERY_TAG));
  else if (kind == KIND_DISPOSITION)
    said = admit_disposition(g, session, (int)f->value[DISPOSITION_ROLE],
                             (uint32_t)f->value[DISPOSITION_FIRST],
                             (uint32_t)f->value[has(f, DISPOSITION_LAST) ? DISPOSITION_LAST
                                                                         : DISPOSITION_FIRST]);
  if (said != ADMITTED) return said;
  if (kind == KIND_BEGIN) {
    uint64_t most = has(f, BEGIN_PEER_HANDLE_MAX) ? f->value[BEGIN_PEER_HANDLE_MAX] : NO_HANDLE;
    *session = (pump_endpoint){.key = key, .name = most};
    session->limit = (uint32_t)f->value[BEGIN_INCOMING_WINDOW];
    g->used++;
  } else if (link && !link->state) {
    *link = (pump_endpoint){.key = key_of(g->channel, g->handle), .name = name};
    g->peer_handles = session->name + 1;
    g->used++;
    g->links++;
  }
  if (kind == KIND_SESSION_FLOW || kind == KIND_LINK_FLOW) {
    uint32_t limit =
        (uint32_t)(f->value[FLOW_NEXT_INCOMING_ID] + f->value[FLOW_INCOMING_WINDOW]);
    if ((int32_t)(limit - session->limit) > 0) session->limit = limit;
  }
  if (next == SESSION_UNMAPPED) {
    end_session(g, g->channel);
  } else if (link && linked == LINK_UNATTACHED) {
    release(g, (uint32_t)(link - g->endpoints));
  } else {
    session->state = (uint8_t)next;
    if (link) link->state = (uint8_t)linked;
  }
  return ADMITTED;
}

/* Whether the performative whose list lies from `at` to `end` may come now; if so it has. */
static int admit(pump_guard *g, const uint8_t *m, size_t end, size_t at, int code,
                 uint32_t channel) {
  fields_t f = {.there = 0};
  g->again = 0;
  g->code = code;
  g->channel = channel;
  g->handle = NO_HANDLE;
  if (code < OPEN || code > CLOSE) return violated(g, VIOLATION_UNKNOWN, 0);
  if (!read_performative(m, end, at, code, &f)) return violated(g, VIOLATION_FIELDS, 0);
  int kind = kind_of(code, &f), next = connection_rules[kind][g->state], said = ADMITTED;
  if (next & REFUSED) return violated(g, next & ~REFUSED, 0);
  if (kind == KIND_OPEN && has(&f, OPEN_CHANNEL_MAX) && f.value[OPEN_CHANNEL_MAX] < g->channel_max)
    g->channel_max = (uint32_t)f.value[OPEN_CHANNEL_MAX];
  if (kind != KIND_OPEN && kind != KIND_CLOSE) said = admit_in_session(g, kind, &f);
  if (said == ADMITTED) g->state = (uint8_t)next;
  return said;
}

/* The same for a transfer as nearly all are, which has an id and a tag. */
static int admit_transfer(pump_guard *g, uint32_t channel, uint32_t handle, uint32_t id, int more) {
  int kind = more ? KIND_TRANSFER_MORE : KIND_TRANSFER_LAST;
  g->code = TRANSFER;
  g->channel = channel;
  g->handle = handle;
  g->again = 0;
  int next = connection_rules[kind][g->state];
  if (next & REFUSED) return violated(g, next & ~REFUSED, 0);
  pump_endpoint *session = endpoint(g, key_of(channel, NO_HANDLE), &g->session_at);
  next = session_rules[kind][session->state];
  if (next & REFUSED) return violated(g, next & ~REFUSED, 0);
  if (handle_of_nobody(g, kind) != ADMITTED) return VIOLATED;
  pump_endpoint *link = endpoint(g, key_of(channel, handle), &g->link_at);
  next = link_rules[kind][link->state];
  if (next & REFUSED) return violated(g, next & ~REFUSED, 0);
  int said = admit_delivery(g, session, link, 1, id, 1);
  if (said != ADMITTED) return said;
  if (!more && next == link->state) g->again = link->key + 1;
  link->state = (uint8_t)next;
  return ADMITTED;
}

/* Whether a transfer is one more of those that came before it on its link. */
static inline int admitted_again(pump_guard *g, uint32_t channel, uint32_t handle, uint32_t id,
                                 int more) {
  pump_endpoint *session = g->endpoints + g->session_at;
  if (more || g->again != key_of(channel, handle) + 1 || session->id != id) return 0;
  session->id = id + 1;
  return 1;
}

/* The same as `admit` for a disposition as nearly all are, which has a role, and a first and a last
 * delivery. It changes no state. */
static int admit_outcomes(pump_guard *g, uint32_t channel, int role, uint32_t first, uint32_t last) {
  g->code = DISPOSITION;
  g->channel = channel;
  g->handle = NO_HANDLE;
  g->again = 0;
  int next = connection_rules[KIND_DISPOSITION][g->state];
  if (next & REFUSED) return violated(g, next & ~REFUSED, 0);
  pump_endpoint *session = endpoint(g, key_of(channel, NO_HANDLE), &g->session_at);
  next = session_rules[KIND_DISPOSITION][session->state];
  if (next & REFUSED) return violated(g, next & ~REFUSED, 0);
  return admit_disposition(g, session, role, first, last);
}
