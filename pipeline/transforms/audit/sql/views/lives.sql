-- lives: each incarnation of a durable subscription, one row.
--
-- `created`, `redefined`, `rewound` and `purged` begin an incarnation, with the event's floor. It
-- lasts until the next of these or `deleted`. A settlement belongs to the incarnation that began in
-- a group before its own: since < group <= until. `until` is null while it lasts.
-- `claim` is a number for its topic and selector together, null without a selector.
-- If one group has several events of one subscription, an event that begins an incarnation wins.
WITH decisive AS (
  SELECT subscription, `group`,
         max_by(struct(event, topic, shared, selector, no_local, floor), event <> 'deleted') AS said
  FROM subscriptions
  WHERE event IN ('created', 'redefined', 'rewound', 'purged', 'deleted')
  GROUP BY subscription, `group`
),
spans AS (
  SELECT subscription, said, `group` AS since,
         lead(`group`) OVER (PARTITION BY subscription ORDER BY `group`) AS until
  FROM decisive
)
SELECT row_number() OVER (ORDER BY since, subscription) AS incarnation,
       subscription, said.event, said.topic, said.shared, said.selector,
       if(said.selector IS NULL, NULL, dense_rank() OVER (ORDER BY said.topic, said.selector)) AS claim,
       said.floor, since, until
FROM spans
WHERE said.event <> 'deleted'
