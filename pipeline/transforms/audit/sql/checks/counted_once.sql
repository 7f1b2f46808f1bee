-- counted_once: one delivery has one record
--
-- Guarantee: each delivery to a consumer is recorded once, so that deliveries can be counted. Only
--   the last failed delivery of a message has two records: `modified` when it ended, `dead_lettered`
--   when the copy was durable.
-- A row: a delivery (one message, one consumer, one `delivered_at`) with any other records.
-- What to do: look at the groups of the row: one group: a row was written twice; several: the
--   gateway recorded it twice. Report it. Several final outcomes are a matter of `settled_twice`.
-- judged: settlements | SELECT count(*) FROM settlements
WITH recorded AS (
  SELECT incarnation, sequence, consumer, delivered_at, count(*) AS records,
         count_if(outcome = 'modified' AND NOT final) AS failed,
         count_if(outcome = 'dead_lettered' AND final) AS buried,
         count_if(final) AS finals,
         array_join(sort_array(collect_list(outcome)), ', ') AS which,
         min(`group`) AS first_group, max(`group`) AS last_group
  FROM repeated
  WHERE delivered_at IS NOT NULL AND consumer IS NOT NULL
  GROUP BY incarnation, sequence, consumer, delivered_at
)
SELECT 'several records of one delivery' AS problem,
       i.subscription, r.sequence, i.topic, r.consumer, r.delivered_at, r.which,
       r.first_group, r.last_group
FROM recorded r
JOIN incarnations i ON i.incarnation = r.incarnation
WHERE r.records > 1 AND r.finals <= 1
  AND NOT (r.records = 2 AND r.failed = 1 AND r.buried = 1)
