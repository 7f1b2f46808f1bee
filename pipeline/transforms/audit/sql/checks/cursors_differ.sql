-- cursors_differ: each cursor is what the rows of its incarnation come to
--
-- Guarantee: a cursor has its subscription's floor and settled messages as of its group.
--   `materialize` folds it from sums and bitmaps; here it is matched anew, message by message.
-- A row: a cursor that is missing, has no subscription, or differs in the definition, the floor, a
--   message settled above it, one that was lost with a consumer, a failure, or a count.
-- What to do: a restart of the gateway begins with this table, so a message wrongly settled in it is
--   lost, and one wrongly unsettled comes again: stop the job, move tables/cursors away with the
--   other tables of Spark and the checkpoints, and run `distributary jobs materialize`.
-- Not judged: counts, where retention has taken rows of `acks`, or with --since.
-- judged: cursors | SELECT count(*) FROM cursors
WITH living AS (
  SELECT * FROM lives WHERE until IS NULL
),
folded AS (
  SELECT l.incarnation, l.subscription, l.topic, l.shared, l.selector, l.since,
         greatest(l.floor, coalesce(f.floor, l.floor)) AS floor
  FROM living l
  LEFT JOIN (SELECT incarnation, max(floor) AS floor FROM floors GROUP BY incarnation) f
    ON f.incarnation = l.incarnation
),
final AS (
  SELECT DISTINCT c.subscription, s.sequence
  FROM settlements s
  JOIN living l ON l.incarnation = s.incarnation
  JOIN cursors c ON c.subscription = l.subscription
  WHERE s.final AND s.sequence >= c.floor
),
failed AS (
  SELECT c.subscription, s.sequence,
         max(struct(s.delivery_count + if(s.outcome = 'modified', 1, 0) AS failures, s.`group`)) AS said
  FROM settlements s
  JOIN living l ON l.incarnation = s.incarnation
  JOIN cursors c ON c.subscription = l.subscription
  WHERE NOT s.final AND s.sequence >= c.floor
    AND s.delivery_count + if(s.outcome = 'modified', 1, 0) > 0
  GROUP BY c.subscription, s.sequence
),
failing AS (
  SELECT f.* FROM failed f
  LEFT ANTI JOIN final t ON t.subscription = f.subscription AND t.sequence = f.sequence
),
noted AS (
  SELECT subscription, one.sequence, one.failures, one.`group`
  FROM (SELECT subscription, explode(failures) AS one FROM cursors)
  WHERE one.sequence >= (SELECT first_sequence FROM bounds)
),
gone AS (
  SELECT DISTINCT c.subscription, s.sequence
  FROM settlements s
  JOIN living l ON l.incarnation = s.incarnation
  JOIN cursors c ON c.subscription = l.subscription
  LEFT ANTI JOIN final t ON t.subscription = c.subscription AND t.sequence = s.sequence
  WHERE s.outcome = 'lost' AND s.sequence >= c.floor
),
counted AS (
  SELECT l.subscription,
         count_if(a.outcome = 'accepted') AS accepted, count_if(a.outcome = 'rejected') AS rejected,
         count_if(a.outcome = 'released') AS released, count_if(a.outcome = 'modified') AS modified
  FROM living l
  LEFT JOIN acks a ON a.subscription = l.subscription AND a.`group` > l.since
  WHERE (SELECT whole FROM bounds)
  GROUP BY l.subscription
)
SELECT CASE WHEN c.subscription IS NULL THEN 'a subscription without a cursor'
            WHEN f.subscription IS NULL THEN 'a cursor without a subscription'
            WHEN c.floor < f.floor THEN 'the floor is too low'
            WHEN c.floor > f.floor THEN 'the floor is too high'
            ELSE 'another definition' END AS problem,
       coalesce(c.subscription, f.subscription) AS subscription, CAST(NULL AS BIGINT) AS sequence,
       c.floor AS floor, f.floor AS floor_of_rows, CAST(NULL AS STRING) AS difference
FROM cursors c
FULL OUTER JOIN folded f ON f.subscription = c.subscription
WHERE c.subscription IS NULL OR f.subscription IS NULL
   OR c.topic <> f.topic OR c.shared <> f.shared OR NOT (c.selector <=> f.selector)
   OR c.floor < f.floor
   -- A higher floor may have been in settlements that retention has removed.
   OR (c.floor > f.floor AND f.since >= (SELECT acks_from FROM bounds))
UNION ALL
SELECT CASE WHEN c.subscription IS NULL THEN 'settled, but not in the cursor'
            ELSE 'in the cursor, but not settled' END,
       coalesce(c.subscription, t.subscription), coalesce(c.sequence, t.sequence), NULL, NULL, NULL
FROM (SELECT * FROM settled_in_cursors WHERE sequence >= (SELECT first_sequence FROM bounds)) c
FULL OUTER JOIN final t ON t.subscription = c.subscription AND t.sequence = c.sequence
WHERE c.subscription IS NULL OR t.subscription IS NULL
UNION ALL
SELECT CASE WHEN c.subscription IS NULL THEN 'lost with a consumer, but not in the cursor'
            ELSE 'lost in the cursor, but not with a consumer' END,
       coalesce(c.subscription, g.subscription), coalesce(c.sequence, g.sequence), NULL, NULL, NULL
FROM (SELECT * FROM lost_in_cursors WHERE sequence >= (SELECT first_sequence FROM bounds)) c
FULL OUTER JOIN gone g ON g.subscription = c.subscription AND g.sequence = c.sequence
WHERE c.subscription IS NULL OR g.subscription IS NULL
UNION ALL
SELECT 'failures differ', coalesce(n.subscription, f.subscription),
       coalesce(n.sequence, f.sequence), NULL, NULL,
       concat('cursor: ', coalesce(n.failures, 0), ', rows: ', coalesce(f.said.failures, 0))
FROM noted n
FULL OUTER JOIN failing f ON f.subscription = n.subscription AND f.sequence = n.sequence
WHERE NOT (n.failures <=> f.said.failures) OR NOT (n.`group` <=> f.said.`group`)
UNION ALL
SELECT 'counts differ', c.subscription, NULL, NULL, NULL,
       concat_ws(', ',
         concat('accepted ', c.accepted, ' and ', t.accepted),
         concat('rejected ', c.rejected, ' and ', t.rejected),
         concat('released ', c.released, ' and ', t.released),
         concat('modified ', c.modified, ' and ', t.modified))
FROM cursors c
JOIN counted t ON t.subscription = c.subscription
WHERE c.accepted <> t.accepted OR c.rejected <> t.rejected
   OR c.released <> t.released OR c.modified <> t.modified
