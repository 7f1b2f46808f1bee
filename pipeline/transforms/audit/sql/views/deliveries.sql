-- deliveries: settlements that say when their delivery began; each delivery once.
--
-- A delivery to a consumer that was lost, or whose lock ended, has the time of its end as both times:
-- its begin isn't known. (A delivery to a consumer that takes messages settled has one time for both,
-- too, and that is true.)
-- The last failed delivery of a message has two settlements: `modified`, then `dead_lettered`, when
-- its copy was durable. The first one is the delivery's.
SELECT *
FROM settlements
WHERE delivered_at IS NOT NULL
  AND (delivered_at < settled_at OR outcome = 'accepted')
  AND outcome <> 'dead_lettered'
UNION ALL
SELECT s.*
FROM settlements s
LEFT ANTI JOIN repeated r
  ON r.incarnation = s.incarnation AND r.sequence = s.sequence
 AND r.consumer = s.consumer AND r.delivered_at = s.delivered_at
 AND r.outcome = 'modified' AND NOT r.final
WHERE s.delivered_at < s.settled_at
  AND s.outcome = 'dead_lettered'
