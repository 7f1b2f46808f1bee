-- claimed: the topics of each word that a subscription claims: a topic itself, or all topics that
-- match a pattern. A pattern's words stand between dots: * is one, # any number of them.
WITH words AS (
  SELECT DISTINCT topic AS word FROM lives
),
patterns AS (
  SELECT word,
         concat('^', array_join(transform(split(substr(word, 11), '[.]'), one ->
           CASE one WHEN '*' THEN '[^.]*[.]'
                    WHEN '#' THEN '([^.]*[.])*'
                    ELSE concat('\\Q', one, '\\E[.]') END), ''), '$') AS expression
  FROM words
  WHERE word LIKE 'pattern://%'
)
SELECT word, word AS topic FROM words WHERE word NOT LIKE 'pattern://%'
UNION ALL
SELECT p.word, t.topic
FROM patterns p
JOIN (SELECT DISTINCT topic FROM messages) t
  ON NOT t.topic RLIKE '^(queue|temp-queue|temp-topic)://'
 AND concat(t.topic, '.') RLIKE p.expression
