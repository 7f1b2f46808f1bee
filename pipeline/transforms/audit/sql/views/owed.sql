-- owed: what each incarnation is owed: the messages of its topics from its floor on that its selector
-- selects. `passed` says how far it has come.
--
-- Of a message that Spark couldn't decode, or that was decoded before its table had the columns that
-- the selector asks for, the audit can't tell whether it is selected: it isn't in this view.
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
