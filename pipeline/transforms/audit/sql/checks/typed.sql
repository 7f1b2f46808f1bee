-- typed: each message of a topic with a schema is in its typed table or in rejected, once
--
-- Guarantee: a message at whose publication its topic had a schema is in exactly one table, once,
--   with the version that was in force, and with the values of its body: JSON by Python's own
--   parser, Avro and Protobuf by readers that share nothing with those which make the rows.
-- A row: a message that is in none or in several, or twice in one, or in a table of another topic,
--   or that another version has read; or a column with another value than the body.
-- What to do: move tables/topics, rejected, messages, acks, subscriptions, schemas, log_versions,
--   cursors and checkpoints away, run `distributary jobs materialize`: it makes them anew. Messages in
--   `messages` from before the job knew schemas are in no typed table: that is no fault.
-- Not judged: tables on an object store, which has no typed ones; values of CloudEvents, of bodies
--   that are AMQP's maps and lists, of Protobuf's editions; of Avro and Protobuf durations, and values
--   that a column has as JSON.
-- judged: messages of topics with a schema | SELECT count(*) FROM messages m JOIN reigns r ON r.topic = m.topic AND m.sequence >= r.since AND (r.until IS NULL OR m.sequence < r.until)
WITH owed AS (
  SELECT m.sequence, m.topic, r.said.version
  FROM messages m
  JOIN reigns r
    ON r.topic = m.topic AND m.sequence >= r.since AND (r.until IS NULL OR m.sequence < r.until)
),
rows AS (
  SELECT sequence, topic, `table`, schema_version FROM typed
  UNION ALL
  SELECT sequence, topic, 'rejected', schema_version FROM rejected
),
last AS (
  SELECT max(sequence) AS sequence FROM messages
),
there AS (
  SELECT r.sequence, count(*) AS times, count(DISTINCT r.`table`) AS tables,
         min(r.`table`) AS `table`, max(r.`table`) AS other, min(r.topic) AS of,
         min(r.schema_version) AS version
  FROM rows r CROSS JOIN bounds b CROSS JOIN last l
  WHERE r.sequence BETWEEN b.first_sequence AND l.sequence
  GROUP BY r.sequence
),
compared AS (
  SELECT sequence, o.topic, o.version, t.`table`, t.other, t.times, t.tables, t.of,
         t.version AS read_by
  FROM owed o FULL OUTER JOIN there t USING (sequence)
)
SELECT CASE WHEN times IS NULL THEN 'in no table'
            WHEN version IS NULL THEN 'there, but its topic had no schema'
            WHEN tables > 1 THEN 'in two tables'
            WHEN times > 1 THEN 'there twice'
            WHEN of <> topic THEN 'in the table of another topic'
            ELSE 'read by another version' END AS problem,
       sequence, topic, version, `table`, if(tables > 1, other, NULL) AS other_table, read_by,
       CAST(NULL AS STRING) AS column, CAST(NULL AS STRING) AS value, CAST(NULL AS STRING) AS in_body
FROM compared
WHERE times IS NULL OR version IS NULL OR times > 1 OR of <> topic OR version <> read_by
UNION ALL
SELECT 'another value', sequence, topic, NULL, `table`, NULL, NULL, column, value, in_body
FROM typed_values
