-- gaps: every sequence is there, once, in the order of the groups
--
-- Guarantee: sequences are dense over all topics and rise with the groups.
-- A row: sequences that are missing before the one named, one that is there twice, or one whose
--   group is lower than that of the sequence before.
-- What to do: as for `torn`.
-- judged: messages | SELECT count(*) FROM messages
WITH stretches AS (
  -- Sorted in stretches, so that no task has all of the table.
  SELECT sequence DIV 65536 AS stretch, max(struct(sequence, `group`)) AS last
  FROM messages
  GROUP BY sequence DIV 65536
),
joints AS (
  SELECT stretch, lag(last) OVER (ORDER BY stretch) AS before FROM stretches
),
neighbours AS (
  SELECT m.sequence, m.`group`, m.topic,
         coalesce(
           lag(struct(m.sequence, m.`group`)) OVER (
             PARTITION BY m.sequence DIV 65536 ORDER BY m.sequence, m.`group`),
           j.before) AS before
  FROM messages m
  JOIN joints j ON j.stretch = m.sequence DIV 65536
)
SELECT CASE WHEN sequence = before.sequence THEN 'there twice'
            WHEN `group` < before.`group` THEN 'not in the order of groups'
            ELSE 'some before it are missing' END AS problem,
       sequence, `group`, topic, before.sequence AS sequence_before, before.`group` AS group_before
FROM neighbours
WHERE sequence <> before.sequence + 1 OR `group` < before.`group`
