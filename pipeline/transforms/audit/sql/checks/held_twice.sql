-- held_twice: one consumer at a time has a message
--
-- Guarantee: of one subscription a message is with one consumer, or waits; it is delivered again
--   when the delivery before has ended.
-- A row: two deliveries of one message, the second of which began before the first had ended.
-- What to do: two workers did the same at the same time. Was the gateway's clock set back between the
--   two times? Then that is all. Else report it.
-- judged: settlements | SELECT count(*) FROM settlements
WITH held AS (
  -- The last failed delivery of a message has two rows: `modified`, then `dead_lettered`.
  SELECT incarnation, sequence, consumer, delivered_at, min(settled_at) AS settled_at
  FROM repeated
  WHERE delivered_at IS NOT NULL
  GROUP BY incarnation, sequence, consumer, delivered_at
),
pairs AS (
  SELECT *,
         lead(delivered_at) OVER turns AS next_delivered_at,
         lead(consumer) OVER turns AS next_consumer
  FROM held
  WINDOW turns AS (PARTITION BY incarnation, sequence ORDER BY delivered_at, settled_at)
)
SELECT 'with two consumers at a time' AS problem,
       i.subscription, p.sequence, i.topic, p.consumer, p.delivered_at, p.settled_at,
       p.next_consumer, p.next_delivered_at
FROM pairs p
JOIN incarnations i ON i.incarnation = p.incarnation
WHERE p.next_delivered_at < p.settled_at
