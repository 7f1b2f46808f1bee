/* The interpreter's lock while these functions work.
 *
 * cffi has every call of C release the interpreter and take it again. A single message is a dozen
 * calls of less than a microsecond each: beside a thread that runs Python each of them waited for the
 * interpreter's switch interval. So calls keep the interpreter, and only long ones release it while
 * they work. For the same reason Proton's functions that are needed for each message are called from
 * this file.
 */
#undef Py_BEGIN_ALLOW_THREADS
#undef Py_END_ALLOW_THREADS
#define Py_BEGIN_ALLOW_THREADS {
#define Py_END_ALLOW_THREADS }

/* Messages, and bytes, that take some 20 us. */
enum { LONG_MESSAGES = 32, LONG_BYTES = 1 << 15 };

/* Release the interpreter if this much work is long; call `take_back` when it is done. */
static PyThreadState *let_others(uint64_t work, uint64_t is_long) {
  return work > is_long ? PyEval_SaveThread() : NULL;
}

static void take_back(PyThreadState *others) {
  if (others) PyEval_RestoreThread(others);
}

typedef struct pn_link_t pn_link_t;
int pn_link_credit(pn_link_t *);
int pn_link_unsettled(pn_link_t *);
int pn_link_queued(pn_link_t *);
_Bool pn_link_get_drain(pn_link_t *);
void pn_link_flow(pn_link_t *, int);

/* cdef:begin */
/* Of a link: its credit, the number of deliveries that both sides haven't settled, the number that
 * wait to be written; whether its peer drains it. */
int pump_credit(uint64_t link);
int pump_unsettled(uint64_t link);
int pump_queued(uint64_t link);
_Bool pump_draining(uint64_t link);
/* Give credit to the sender of an incoming link. */
void pump_grant(uint64_t link, int credit);
/* cdef:end */

int pump_credit(uint64_t link) { return pn_link_credit((pn_link_t *)(uintptr_t)link); }
int pump_unsettled(uint64_t link) { return pn_link_unsettled((pn_link_t *)(uintptr_t)link); }
int pump_queued(uint64_t link) { return pn_link_queued((pn_link_t *)(uintptr_t)link); }
_Bool pump_draining(uint64_t link) { return pn_link_get_drain((pn_link_t *)(uintptr_t)link); }
void pump_grant(uint64_t link, int credit) { pn_link_flow((pn_link_t *)(uintptr_t)link, credit); }
