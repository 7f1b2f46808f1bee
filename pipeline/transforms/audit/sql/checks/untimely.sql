-- untimely: no consumer gets a message before its delivery time, or when it has expired
--
-- Guarantee: a message isn't delivered before `deliver_at`, and not at `expires_at` or later. (What
--   a consumer has already may expire there; it may still settle it as it likes.)
-- A row: a delivery outside of the message's time.
-- What to do: report it with the row.
-- judged: deliveries | SELECT count(*) FROM deliveries
SELECT CASE WHEN d.delivered_at < m.deliver_at THEN 'before its time' ELSE 'after its time' END
         AS problem,
       i.subscription, d.sequence, i.topic, d.consumer, d.delivered_at, m.deliver_at, m.expires_at
FROM deliveries d
JOIN messages m ON m.sequence = d.sequence
JOIN incarnations i ON i.incarnation = d.incarnation
WHERE d.delivered_at < m.deliver_at OR d.delivered_at >= m.expires_at
