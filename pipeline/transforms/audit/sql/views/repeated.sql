-- repeated: the settlements of messages that have several in one incarnation, because they came back
-- and were delivered again. All other messages were delivered once and settled once.
SELECT incarnation, sequence, consumer, outcome, final, delivery_count,
       delivered_at, settled_at, `group`
FROM (
  SELECT *, count(*) OVER (PARTITION BY incarnation, sequence) AS rows
  FROM settlements
)
WHERE rows > 1
