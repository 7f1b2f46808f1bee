-- settled_twice: a message is settled for good once
--
-- Guarantee: in one incarnation of a subscription a message has one final outcome.
-- A row: a message with several final outcomes. A sum of outcomes counts it more than once.
-- What to do: look at the consumers and groups of the row. One consumer and one group: a row was
--   written twice; `distributary verify` tells whether in the log. Several: it was delivered twice.
-- judged: settlements | SELECT count(*) FROM settlements
SELECT 'several final outcomes' AS problem,
       i.subscription, r.sequence, i.topic, count(*) AS outcomes,
       array_join(sort_array(collect_set(r.outcome)), ', ') AS which,
       array_join(sort_array(collect_set(r.consumer)), ', ') AS consumers,
       min(r.`group`) AS first_group, max(r.`group`) AS last_group
FROM repeated r
JOIN incarnations i ON i.incarnation = r.incarnation
WHERE r.final
GROUP BY i.incarnation, i.subscription, i.topic, r.sequence
HAVING count(*) > 1
