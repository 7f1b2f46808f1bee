-- out_of_order: a consumer gets messages in the order of publishing
--
-- Guarantee: of messages of one priority a consumer gets the earlier one first. It is judged by
--   first deliveries; messages that came back, waited for their time or belong to a group have other
--   rules, and so have other priorities than the usual one after a rewind (docs/delivery.md).
-- A row: a message that a consumer got after a later one.
-- What to do: was the gateway's clock set back between the two? Then that is all. Else look whether
--   the consumer's name is used by several programs at once; if not, report it.
-- judged: first deliveries | SELECT count(*) FROM deliveries WHERE delivery_count = 0
WITH first AS (
  SELECT d.incarnation, d.consumer, d.sequence, d.delivered_at, m.priority
  FROM deliveries d
  JOIN messages m ON m.sequence = d.sequence
  JOIN incarnations i ON i.incarnation = d.incarnation
  LEFT ANTI JOIN repeated r ON r.incarnation = d.incarnation AND r.sequence = d.sequence
  -- A delivery in doubt, after the gateway was killed, counts as an attempt: it may be the second.
  WHERE d.delivery_count = 0
    AND m.deliver_at IS NULL AND m.group_id IS NULL AND m.error IS NULL
    AND (m.priority = 4 OR i.event <> 'rewound')
),
compared AS (
  SELECT *,
         max(struct(sequence, delivered_at)) OVER (
           PARTITION BY incarnation, consumer, priority ORDER BY delivered_at, sequence
           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
         ) AS later
  FROM first
)
SELECT 'after a later one' AS problem,
       i.subscription, c.sequence, i.topic, c.consumer, c.priority, c.delivered_at,
       c.later.sequence AS later_sequence, c.later.delivered_at AS later_delivered_at
FROM compared c
JOIN incarnations i ON i.incarnation = c.incarnation
WHERE c.sequence < c.later.sequence
