-- pending: the messages that each subscription is owed, from rows alone. Selectors are those at the
-- time when the view was made. A message from the floor on is settled if the living incarnation has a
-- final ack of it: retention removes no ack before its message. Cursors stand first, so that they are
-- read first.
WITH lives AS (
  SELECT c.subscription, c.topic AS word, c.selector, c.floor, c.`group`,
         coalesce(max(s.`group`), -1) AS began
  FROM {cursors} c
  LEFT JOIN {subscriptions} s
    ON s.subscription = c.subscription AND s.`group` <= c.`group`
   AND s.event IN ('created', 'redefined', 'rewound', 'purged')
  GROUP BY c.subscription, c.topic, c.selector, c.floor, c.`group`
),
patterns AS (
  SELECT *,
         concat('^', array_join(transform(split(substr(word, 11), '[.]'), one ->
           CASE one WHEN '*' THEN '[^.]*[.]'
                    WHEN '#' THEN '([^.]*[.])*'
                    ELSE concat('\\Q', one, '\\E[.]') END), ''), '$') AS expression
  FROM lives
  WHERE word LIKE 'pattern://%'
),
claimed AS (
  SELECT subscription, selector, floor, `group`, began, word AS topic
  FROM lives
  WHERE word NOT LIKE 'pattern://%'
  UNION ALL
  SELECT p.subscription, p.selector, p.floor, p.`group`, p.began, t.topic
  FROM patterns p
  JOIN (SELECT DISTINCT topic FROM {messages}) t
    ON NOT t.topic RLIKE '^(queue|temp-queue|temp-topic)://'
   AND concat(t.topic, '.') RLIKE p.expression
)
SELECT /*+ BROADCAST(c) */ c.subscription, {columns},
       coalesce(m.expires_at <= current_timestamp(), false) AS expired,
       coalesce(m.deliver_at > current_timestamp(), false) AS delayed
FROM claimed c
JOIN {messages} m
  ON m.topic = c.topic AND m.sequence >= c.floor AND m.`group` <= c.`group`
LEFT ANTI JOIN {acks} a
  ON a.subscription = c.subscription AND a.sequence = m.sequence AND a.final
 AND a.`group` > c.began AND a.`group` <= c.`group`
WHERE m.sequence >= (SELECT min(floor) FROM {cursors})
  AND {selected}
