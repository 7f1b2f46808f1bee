-- unfair_share: consumers take strict turns
--
-- Guarantee: consumers with credit take turns, one message each, and credit doesn't grow while
--   messages are dealt. Credit is in no table, so the check looks for a deal that proves it:
--   a consumer that gets another message in the same deal had credit all the time, so meanwhile
--   every other one may have got one message at most. A deal is all deliveries of one moment.
-- A row: a consumer that was passed over: another one got several between two messages of its own.
-- What to do: report it. Of consumers that have no selectors of their own, ranks don't explain it.
-- Not judged: deals with gaps (something is still held, or was given again later), messages with a
--   priority, a delay or a group, and queues, as a queue's consumers may have selectors, which no
--   table says; `queue_turns` in the settings has queues judged, too.
-- judged: deliveries of shared subscriptions | SELECT count(*) FROM deliveries d JOIN incarnations i ON i.incarnation = d.incarnation WHERE i.shared
WITH deals AS (
  SELECT d.incarnation, d.delivered_at
  FROM deliveries d
  JOIN incarnations i ON i.incarnation = d.incarnation
  WHERE i.shared
    AND (i.subscription NOT LIKE 'queue/%' OR (SELECT queue_turns FROM bounds))
  GROUP BY d.incarnation, d.delivered_at
  HAVING min(d.consumer) <> max(d.consumer)
     -- Links of connections without a container id may share a name.
     AND NOT bool_or(d.consumer LIKE '/%')
),
numbered AS (
  -- The place of each message among all that the incarnation is owed: neighbours show gaps.
  SELECT incarnation, sequence, row_number() OVER (PARTITION BY incarnation ORDER BY sequence) AS nth
  FROM owed
  WHERE incarnation IN (SELECT incarnation FROM deals)
),
dealt AS (
  SELECT d.incarnation, d.delivered_at, d.sequence, min(d.consumer) AS consumer, min(n.nth) AS nth
  FROM deliveries d
  JOIN deals e ON e.incarnation = d.incarnation AND e.delivered_at = d.delivered_at
  JOIN numbered n ON n.incarnation = d.incarnation AND n.sequence = d.sequence
  JOIN messages m ON m.sequence = d.sequence
  WHERE m.priority = 4 AND m.deliver_at IS NULL AND m.group_id IS NULL AND m.error IS NULL
  GROUP BY d.incarnation, d.delivered_at, d.sequence
),
placed AS (
  SELECT *,
         row_number() OVER (PARTITION BY incarnation, delivered_at ORDER BY nth) AS place
  FROM dealt
),
turns AS (
  SELECT *,
         lag(place) OVER (PARTITION BY incarnation, delivered_at, consumer ORDER BY nth) AS place_before,
         lag(nth) OVER (PARTITION BY incarnation, delivered_at, consumer ORDER BY nth) AS nth_before
  FROM placed
),
passed_over AS (
  -- The latest first message of two that one consumer got in a row, up to here: if it lies behind
  -- this consumer's own message before, another consumer got two in between.
  SELECT *,
         max(place_before) OVER (
           PARTITION BY incarnation, delivered_at ORDER BY nth
           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
         ) AS others
  FROM turns
)
SELECT 'passed over' AS problem,
       i.subscription, p.sequence, i.topic, p.consumer, p.delivered_at,
       p.place - p.place_before - 1 AS deliveries_to_others
FROM passed_over p
JOIN incarnations i ON i.incarnation = p.incarnation
WHERE p.others > p.place_before AND p.place - p.place_before = p.nth - p.nth_before
