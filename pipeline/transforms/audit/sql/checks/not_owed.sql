-- not_owed: only what is owed is settled
--
-- Guarantee: a settlement is of a message of the subscription's topic or pattern, from the floor on with which
--   its incarnation began.
-- A row: a settlement of another message, or for a subscription that didn't exist.
-- What to do: run `distributary verify`; if it finds the log sound, make Spark's tables anew from it.
-- judged: settlements | SELECT count(*) FROM settlements
SELECT CASE WHEN m.sequence IS NULL THEN 'of a message that is not there'
            WHEN c.word IS NULL THEN 'of a message of another topic'
            ELSE 'of a message below its first floor' END AS problem,
       i.subscription, s.sequence, i.topic, m.topic AS topic_of_message, i.floor, s.outcome,
       s.consumer, s.`group`
FROM settlements s
JOIN incarnations i ON i.incarnation = s.incarnation
LEFT JOIN messages m ON m.sequence = s.sequence
LEFT JOIN claimed c ON c.word = i.topic AND c.topic = m.topic
WHERE m.sequence IS NULL OR c.word IS NULL OR s.sequence < i.floor
UNION ALL
SELECT 'for a subscription that there was not', a.subscription, a.sequence, a.topic, NULL, NULL,
       a.outcome, a.consumer, a.`group`
FROM acks a
LEFT ANTI JOIN lives l
  ON a.subscription = l.subscription
 AND a.`group` > l.since AND (l.until IS NULL OR a.`group` <= l.until)
WHERE a.sequence >= (SELECT first_sequence FROM bounds)
