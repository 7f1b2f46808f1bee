-- deliveries: settlements that say when their delivery began; each delivery once.
--
-- What a lost consumer held, and what was taken from one whose lock ended, has the time of its end
-- for both: there it isn't known when it began. (A consumer that takes messages settled has both at
-- the same moment, too, and there it is true.)
-- What failed for the last time has two settlements: `modified`, then `dead_lettered`, when its copy
-- was durable. The first one is the delivery's.
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
