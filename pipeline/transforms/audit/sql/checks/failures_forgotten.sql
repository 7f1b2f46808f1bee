-- failures_forgotten: failed attempts are counted, whatever happens in between
--
-- Guarantee: a delivery's count of failed attempts is at least the number of failures that were
--   recorded before it, also when the gateway was killed in between. Else poison would never end.
-- A row: a delivery with a lower count.
-- What to do: report it; look in the gateway's log for a start between the two groups.
-- judged: settlements | SELECT count(*) FROM settlements
WITH counted AS (
  SELECT *,
         count_if(outcome = 'modified' AND NOT final) OVER (
           PARTITION BY incarnation, sequence ORDER BY `group`
           RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
         ) AS failed
  FROM repeated
)
SELECT 'fewer failures than were recorded' AS problem,
       i.subscription, c.sequence, i.topic, c.consumer, c.delivery_count, c.failed, c.`group`
FROM counted c
JOIN incarnations i ON i.incarnation = c.incarnation
WHERE c.delivered_at IS NOT NULL AND c.delivery_count < c.failed
