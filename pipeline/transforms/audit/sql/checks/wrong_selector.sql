-- wrong_selector: a subscription gets what its selector is true of, and nothing else
--
-- Guarantee: a topic's subscription is only owed messages of which its selector is true. Spark
--   decides it here anew, from the decoded message, with a compiler of its own.
-- A row: a settlement of a message of which the selector is false or unknown.
-- What to do: read the message in `messages` and the selector beside it. If they don't match, report
--   both; `docs/guides/selectors.md` says what each condition means.
-- judged: settlements of subscriptions with a selector | SELECT count(*) FROM settlements s JOIN incarnations i ON i.incarnation = s.incarnation WHERE i.selector IS NOT NULL AND s.outcome NOT IN ('local', 'forbidden', 'redriven')
SELECT 'delivered, but not selected' AS problem,
       i.subscription, s.sequence, i.topic, i.selector, s.consumer, s.outcome, s.delivered_at,
       s.`group`
FROM settlements s
JOIN incarnations i ON i.incarnation = s.incarnation
JOIN selection x ON x.sequence = s.sequence AND x.claim = i.claim
WHERE NOT x.selected
  -- A message that was never owed was never tried against the selector.
  AND s.outcome NOT IN ('local', 'forbidden', 'redriven')
