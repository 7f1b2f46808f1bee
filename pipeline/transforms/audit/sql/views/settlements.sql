-- settlements: the rows of `acks` that belong to an incarnation, of messages that are judged.
SELECT l.incarnation, a.sequence, a.consumer, a.outcome, a.final, a.delivery_count,
       a.delivered_at, a.settled_at, a.`group`
FROM acks a
JOIN lives l
  ON a.subscription = l.subscription
 AND a.`group` > l.since AND (l.until IS NULL OR a.`group` <= l.until)
WHERE a.sequence >= (SELECT first_sequence FROM bounds)
