-- reigns: the version of a schema that reads the messages of a topic from the sequence `since` on and
-- below `until`; null: to the end.
--
-- A version counts from its floor to the next event of its topic or pattern. Where several match, the
-- topic's own wins, then the longest pattern. In a pattern `*` is any characters and `?` is one; it
-- is for topics, unless it begins with the prefix of another kind.
WITH said AS (
  SELECT if(topic LIKE 'topic://%', substr(topic, 9), topic) AS pattern,
         version, floor, columns, NOT cloud_events AS judged, topic AS source, format, definition,
         message, framing = 'confluent' AS confluent,
         row_number() OVER (PARTITION BY topic ORDER BY `group`, floor, version) AS nth
  FROM schemas
),
versions AS (
  SELECT *, lead(floor) OVER (PARTITION BY pattern ORDER BY nth) AS until,
         concat('(?s)^', array_join(transform(split(pattern, ''), one ->
           CASE one WHEN '*' THEN '.*' WHEN '?' THEN '.'
                    ELSE concat('\\Q', one, '\\E') END), ''), '$') AS expression
  FROM said
),
matched AS (
  SELECT t.topic, v.pattern, v.version, v.floor, v.until,
         struct(v.version, v.columns, v.judged, v.source, v.format, v.definition, v.message,
                v.confluent) AS said
  FROM (SELECT DISTINCT topic FROM messages) t
  JOIN versions v
    ON v.version IS NOT NULL AND (v.until IS NULL OR v.floor < v.until)
   AND (t.topic = v.pattern
        OR t.topic RLIKE v.expression
           AND regexp_extract(t.topic, '^(queue|temp-queue|temp-topic)://', 0)
             = regexp_extract(v.pattern, '^(queue|temp-queue|temp-topic)://', 0))
),
starts AS (
  SELECT topic, floor AS since FROM matched
  UNION
  SELECT topic, until FROM matched WHERE until IS NOT NULL
),
parts AS (
  SELECT topic, since, lead(since) OVER (PARTITION BY topic ORDER BY since) AS until FROM starts
)
SELECT p.topic, p.since, p.until,
       min_by(m.said,
              struct(m.pattern <> m.topic, -length(m.pattern), m.pattern)) AS said
FROM parts p
JOIN matched m
  ON m.topic = p.topic AND m.floor <= p.since AND (m.until IS NULL OR m.until > p.since)
GROUP BY p.topic, p.since, p.until
