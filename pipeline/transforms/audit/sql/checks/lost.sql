-- lost: what a subscription was owed and its floor has passed, was settled
--
-- Guarantee: a message that was accepted is owed to each durable subscription of its topic until it
--   is settled. The floor says that all below it is; no message below it is ever delivered again.
-- A row: a message below the floor without a final settlement. It was lost for this subscription:
--   accepted, owed, neither settled nor pending.
-- What to do: `distributary subscription rewind` to the message brings it (and all after it) again.
--   Keep a copy of the home, run `distributary verify` over it, and report what both say.
-- judged: owed messages below the floor | SELECT count(*) FROM owed WHERE sequence < passed
SELECT 'below the floor and never settled' AS problem,
       i.subscription, o.sequence, i.topic, o.`group` AS published_in_group, i.passed AS floor
FROM owed o
JOIN incarnations i ON i.incarnation = o.incarnation
LEFT ANTI JOIN (SELECT incarnation, sequence FROM settlements WHERE final) s
  ON s.incarnation = o.incarnation AND s.sequence = o.sequence
WHERE o.sequence < o.passed
