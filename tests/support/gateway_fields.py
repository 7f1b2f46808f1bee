"""AMQP 1.0's composite types by the names of their fields (parts 2 to 5)."""

from proton import UNDESCRIBED, Array, Data, Described, symbol, ubyte, uint, ulong, ushort

#: Each type with its code, then its fields in order. A letter says what a plain Python value
#: becomes: u uint, b ubyte, h ushort, t ulong, s symbol, S an array of symbols; a value that has
#: its type already stays as it is.
_TYPES = """
open=0x10 container-id hostname max-frame-size:u channel-max:h idle-time-out:u
  outgoing-locales:S incoming-locales:S offered-capabilities:S desired-capabilities:S properties
begin=0x11 remote-channel:h next-outgoing-id:u incoming-window:u outgoing-window:u handle-max:u
  offered-capabilities:S desired-capabilities:S properties
attach=0x12 name handle:u role snd-settle-mode:b rcv-settle-mode:b source target unsettled
  incomplete-unsettled initial-delivery-count:u max-message-size:t offered-capabilities:S
  desired-capabilities:S properties
flow=0x13 next-incoming-id:u incoming-window:u next-outgoing-id:u outgoing-window:u handle:u
  delivery-count:u link-credit:u available:u drain echo properties
transfer=0x14 handle:u delivery-id:u delivery-tag message-format:u settled more
  rcv-settle-mode:b state resume aborted batchable
disposition=0x15 role first:u last:u settled state batchable
detach=0x16 handle:u closed error
end=0x17 error
close=0x18 error
error=0x1d condition:s description info
received=0x23 section-number:u section-offset:t
accepted=0x24
rejected=0x25 error
released=0x26
modified=0x27 delivery-failed undeliverable-here message-annotations
source=0x28 address durable:u expiry-policy:s timeout:u dynamic dynamic-node-properties
  distribution-mode:s filter default-outcome outcomes:S capabilities:S
target=0x29 address durable:u expiry-policy:s timeout:u dynamic dynamic-node-properties
  capabilities:S
delete-on-close=0x2b
coordinator=0x30 capabilities:S
declare=0x31 global-id
discharge=0x32 txn-id fail
declared=0x33 txn-id
transactional-state=0x34 txn-id outcome
sasl-mechanisms=0x40 sasl-server-mechanisms:S
sasl-init=0x41 mechanism:s initial-response hostname
sasl-challenge=0x42 challenge
sasl-response=0x43 response
sasl-outcome=0x44 code:b additional-data
"""
#: Name -> code, and (field, letter) in order.
FIELDS: dict[str, tuple[int, list[tuple[str, str]]]] = {}
for _line in _TYPES.replace("\n  ", " ").split("\n"):
    if _line:
        _head, *_fields = _line.split()
        _name, _, _code = _head.partition("=")
        _pairs = [_field.partition(":")[::2] for _field in _fields]
        FIELDS[_name] = (int(_code, 16), _pairs)
KINDS = {code: name for name, (code, _) in FIELDS.items()}
_AS = {"u": uint, "b": ubyte, "h": ushort, "t": ulong, "s": symbol}


def composite(code: int, *fields: object) -> Described:
    return Described(ulong(code), list(fields))


def make(kind: str, **given: object) -> Described:
    """A composite by the names of its fields; what isn't given is null, nulls at the end are left
    out."""
    code, fields = FIELDS[kind]
    values = {name.replace("_", "-"): value for name, value in given.items()}
    unknown = values.keys() - {name for name, _ in fields}
    assert not unknown, f"{kind} has no field {unknown}"
    made = [_typed(letter, values.get(name)) for name, letter in fields]
    while made and made[-1] is None:
        made.pop()
    return composite(code, *made)


def _typed(letter: str, value: object) -> object:
    if letter == "S" and isinstance(value, list | tuple):
        return words(*value)
    plain = type(value) in (int, str)
    return _AS[letter](value) if plain and letter in _AS else value


def words(*names: str) -> Array:
    """An array of symbols, as capabilities are."""
    return Array(UNDESCRIBED, Data.SYMBOL, *map(symbol, names))


class Fields:
    """A composite that came, by the names of its fields. Composites inside it are such, too."""

    def __init__(self, value: Described) -> None:
        self.code = int(value.descriptor)
        self.kind = KINDS[self.code]
        self.values: list[object] = list(value.value)

    def __getitem__(self, name: str) -> object:
        names = [field for field, _ in FIELDS[self.kind][1]]
        at = names.index(name)
        return _opened(self.values[at]) if at < len(self.values) else None

    def __repr__(self) -> str:
        shown = {name: self[name] for name, _ in FIELDS[self.kind][1] if self[name] is not None}
        return f"{self.kind} {shown}"


def _opened(value: object) -> object:
    """Composites by their names, arrays as lists; the rest as it is."""
    if isinstance(value, Array):
        return list(value.elements)
    known = isinstance(value, Described) and value.descriptor in KINDS
    return Fields(value) if known else value
