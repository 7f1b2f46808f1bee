-- owed: the messages that each incarnation is owed: those of its topics, from its floor on, that its
-- selector selects. `passed` is the floor that it has reached.
--
-- A message that Spark couldn't decode, or that was decoded before its table had the columns that the
-- selector asks for, isn't in this view: the audit can't tell whether it is selected.
SELECT i.incarnation, m.sequence, m.`group`, i.passed
FROM messages m
JOIN claimed c ON c.topic = m.topic
JOIN incarnations i ON i.topic = c.word AND m.sequence >= i.floor
WHERE i.selector IS NULL AND m.sequence >= (SELECT first_sequence FROM bounds)
UNION ALL
SELECT i.incarnation, s.sequence, s.`group`, i.passed
FROM selection s
JOIN incarnations i ON i.claim = s.claim AND s.sequence >= i.floor
WHERE s.selected AND s.sequence >= (SELECT first_sequence FROM bounds)
