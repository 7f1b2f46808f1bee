-- floor_falls: a floor only rises, and never beyond what there is or what is owed
--
-- Guarantee: the floor falls by a rewind alone, which begins a new incarnation. It passes a message
--   when that is settled, and no later than its settlement.
-- A row: a floor that is lower than one before, below the one that the incarnation began with,
--   beyond the end of the log, or above a message that was settled later.
-- What to do: run `distributary verify`. A floor that falls brings messages again; one that is too
--   high loses them.
-- judged: groups with settlements | SELECT count(*) FROM floors
WITH running AS (
  SELECT incarnation, `group`, floor,
         max(struct(floor, `group`)) OVER (
           PARTITION BY incarnation ORDER BY `group` ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
         ) AS before
  FROM floors
),
last AS (
  SELECT coalesce(max(sequence), -1) + 1 AS sequence FROM messages
)
SELECT CASE WHEN r.floor < i.floor THEN 'below its first floor'
            WHEN r.floor < r.before.floor THEN 'falls'
            ELSE 'beyond the end of the log' END AS problem,
       i.subscription, r.`group`, r.floor, r.before.floor AS floor_before,
       r.before.`group` AS group_before, i.floor AS first_floor, CAST(NULL AS BIGINT) AS sequence
FROM running r
JOIN incarnations i ON i.incarnation = r.incarnation
CROSS JOIN last
WHERE r.floor < i.floor OR r.floor < r.before.floor OR r.floor > last.sequence
UNION ALL
SELECT 'above what was settled later', i.subscription, s.`group`, r.floor, r.before.floor,
       r.before.`group`, i.floor, s.sequence
FROM settlements s
JOIN running r ON r.incarnation = s.incarnation AND r.`group` = s.`group`
JOIN incarnations i ON i.incarnation = s.incarnation
LEFT ANTI JOIN (SELECT * FROM repeated WHERE final) f
  ON f.incarnation = s.incarnation AND f.sequence = s.sequence AND f.`group` < s.`group`
WHERE s.final AND s.sequence < r.before.floor
