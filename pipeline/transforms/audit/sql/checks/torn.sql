-- torn: a group is there as a whole or not at all
--
-- Guarantee: records that became durable at once, such as a transaction's messages and settlements,
--   are one group, in one commit of topic_log, whole in every table up to the group of `cursors`.
-- A row: a group of which a table has more or fewer rows than the log; or a version of the log that
--   goes back.
-- What to do: if `distributary verify` finds the log sound, Spark's tables are at fault: move
--   tables/cursors, acks, messages, subscriptions, log_versions and checkpoints away, run
--   `distributary jobs materialize`: it makes them anew.
-- Not judged: groups that retention has taken from the log or from the tables.
-- judged: groups | SELECT count(DISTINCT `group`) FROM topic_log
WITH log AS (
  SELECT `group`,
         count_if(record = 'message') AS messages,
         coalesce(sum(if(record = 'settlement', size(sequences), 0)), 0) AS acks,
         count_if(
           record = 'subscription'
           AND event NOT IN (
             'schema', 'prepared', 'committed', 'rolled_back', 'decided', 'completed'
           )
         ) AS events
  FROM topic_log
  GROUP BY `group`
),
materialized AS (
  SELECT `group`, sum(message) AS messages, sum(ack) AS acks, sum(event) AS events
  FROM (
    SELECT `group`, 1 AS message, 0 AS ack, 0 AS event FROM messages
    UNION ALL
    SELECT `group`, 0, 1, 0 FROM acks
    UNION ALL
    SELECT `group`, 0, 0, 1 FROM subscriptions
  )
  GROUP BY `group`
),
compared AS (
  SELECT coalesce(l.`group`, t.`group`) AS `group`,
         if(`group` >= b.messages_from, coalesce(l.messages, 0), 0) AS messages_in_log,
         if(`group` >= b.messages_from, coalesce(t.messages, 0), 0) AS messages,
         if(`group` >= b.acks_from, coalesce(l.acks, 0), 0) AS settled_in_log,
         if(`group` >= b.acks_from, coalesce(t.acks, 0), 0) AS acks,
         if(`group` >= b.first_group, coalesce(l.events, 0), 0) AS events_in_log,
         if(`group` >= b.first_group, coalesce(t.events, 0), 0) AS subscriptions
  FROM log l
  FULL OUTER JOIN materialized t USING (`group`)
  CROSS JOIN bounds b
),
versions AS (
  SELECT log_version, `group`,
         lag(log_version) OVER (ORDER BY log_version, `group`) AS version_before,
         max(`group`) OVER (
           ORDER BY log_version, `group` ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
         ) AS group_before
  FROM log_versions
)
SELECT CASE WHEN messages_in_log <> messages THEN 'messages differ from the log'
            WHEN settled_in_log <> acks THEN 'acks differ from the log'
            ELSE 'subscriptions differ from the log' END AS problem,
       `group`, messages_in_log, messages, settled_in_log, acks, events_in_log, subscriptions,
       CAST(NULL AS BIGINT) AS log_version
FROM compared
WHERE messages_in_log <> messages OR settled_in_log <> acks OR events_in_log <> subscriptions
UNION ALL
SELECT CASE WHEN log_version = version_before THEN 'a version of the log is there twice'
            ELSE 'a version of the log goes back' END,
       `group`, NULL, NULL, NULL, NULL, NULL, NULL, log_version
FROM versions
WHERE log_version = version_before OR `group` < group_before
