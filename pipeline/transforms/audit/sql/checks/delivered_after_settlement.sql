-- delivered_after_settlement: no consumer gets a message that is settled for good
--
-- Guarantee: after its final settlement a message is never delivered again in the same incarnation.
--   (A rewind begins a new one, in which it is owed once more.)
-- A row: a delivery that began after the message was settled for good.
-- What to do: the application has worked on it twice. Compare `delivered_at` with the starts of the
--   gateway in its log; run `distributary verify`; report it.
-- judged: settlements | SELECT count(*) FROM settlements
WITH ended AS (
  SELECT incarnation, sequence, min(settled_at) AS settled_at, min(`group`) AS `group`
  FROM repeated
  WHERE final
  GROUP BY incarnation, sequence
)
SELECT 'delivered after its settlement' AS problem,
       i.subscription, r.sequence, i.topic, r.consumer, r.outcome, e.settled_at, r.delivered_at,
       e.`group` AS settled_in_group, r.`group`
FROM repeated r
JOIN ended e ON e.incarnation = r.incarnation AND e.sequence = r.sequence
JOIN incarnations i ON i.incarnation = r.incarnation
WHERE r.delivered_at > e.settled_at AND r.`group` >= e.`group`
