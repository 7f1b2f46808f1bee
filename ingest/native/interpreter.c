/* Who has the interpreter while these functions work.
 *
 * cffi has every call of C give the interpreter away and take it again. A message alone is a dozen of
 * calls that take less than a microsecond each: beside a thread that runs Python each of them waited
 * for the interpreter's switch interval. So calls keep it, and those that take long let others have
 * it, by themselves, while they work. The functions of Proton that are called for each message are
 * called here for the same reason.
 */
#undef Py_BEGIN_ALLOW_THREADS
#undef Py_END_ALLOW_THREADS
#define Py_BEGIN_ALLOW_THREADS {
#define Py_END_ALLOW_THREADS }

/* Messages, and bytes, that take some 20 us. */
enum { LONG_MESSAGES = 32, LONG_BYTES = 1 << 15 };

/* Let others have the interpreter if so much work is long: `take_back` when it is done. */
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
/* Of a link: its credit, how many deliveries both sides haven't settled, and how many wait to be
 * written; whether its peer drains it. */
int pump_credit(uint64_t link);
int pump_unsettled(uint64_t link);
int pump_queued(uint64_t link);
_Bool pump_draining(uint64_t link);
/* Let the sender of an incoming link send so many more. */
void pump_grant(uint64_t link, int credit);
/* cdef:end */

int pump_credit(uint64_t link) { return pn_link_credit((pn_link_t *)(uintptr_t)link); }
int pump_unsettled(uint64_t link) { return pn_link_unsettled((pn_link_t *)(uintptr_t)link); }
int pump_queued(uint64_t link) { return pn_link_queued((pn_link_t *)(uintptr_t)link); }
_Bool pump_draining(uint64_t link) { return pn_link_get_drain((pn_link_t *)(uintptr_t)link); }
void pump_grant(uint64_t link, int credit) { pn_link_flow((pn_link_t *)(uintptr_t)link, credit); }
