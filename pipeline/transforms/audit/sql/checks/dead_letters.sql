-- dead_letters: what is given up lies among the dead letters, since the same group
--
-- Guarantee: the copy of a dead letter and its settlement become durable together.
-- A row: a group in which more messages were dead-lettered than there are copies in queues.
-- What to do: the originals are still in `messages`, by the sequences in `acks`. Report it.
-- judged: dead-lettered | SELECT count(*) FROM settlements WHERE outcome = 'dead_lettered'
WITH buried AS (
  SELECT `group`, count(*) AS dead_lettered, min(sequence) AS first_sequence
  FROM settlements
  WHERE outcome = 'dead_lettered'
  -- A message that retention removed before it was given up can't be copied.
    AND sequence >= (SELECT first_logged_sequence FROM bounds)
  GROUP BY `group`
)
SELECT 'no copy in its group' AS problem,
       b.`group`, b.first_sequence AS sequence, b.dead_lettered, coalesce(c.copies, 0) AS copies
FROM buried b
LEFT JOIN (
  SELECT `group`, count(*) AS copies FROM messages WHERE topic LIKE 'queue://%' GROUP BY `group`
) c ON c.`group` = b.`group`
WHERE b.dead_lettered > coalesce(c.copies, 0)
