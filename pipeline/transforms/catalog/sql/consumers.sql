-- consumers: the deliveries of each subscription to each consumer, and their times. Times are rounded
-- to steps of 0.35 %, so that there are few of them.
WITH taken AS (
  SELECT *, CASE WHEN outcome NOT IN ('released', 'lost')
                 THEN unix_micros(settled_at) - unix_micros(delivered_at) END AS took_us
  FROM {deliveries}
),
alike AS (
  SELECT subscription, consumer, outcome, floor(log2(greatest(took_us, 1)) * 200) AS step,
         count(*) AS n, max(took_us) AS longest_us,
         min(delivered_at) AS first_seen, max(settled_at) AS last_seen
  FROM (SELECT * FROM taken WHERE took_us IS NOT NULL)
  GROUP BY ALL
  UNION ALL
  SELECT subscription, consumer, outcome, NULL, count(*), NULL, min(delivered_at), max(settled_at)
  FROM taken
  WHERE took_us IS NULL
  GROUP BY subscription, consumer, outcome
),
ranked AS (
  SELECT *,
         sum(CASE WHEN step IS NOT NULL THEN n END)
           OVER (PARTITION BY subscription, consumer ORDER BY step) AS up_to,
         sum(CASE WHEN step IS NOT NULL THEN n END)
           OVER (PARTITION BY subscription, consumer) AS timed
  FROM alike
),
counted AS (
  SELECT subscription, consumer, sum(n) AS deliveries,
         coalesce(sum(n) FILTER (WHERE outcome = 'accepted'), 0) AS accepted,
         coalesce(sum(n) FILTER (WHERE outcome = 'rejected'), 0) AS rejected,
         coalesce(sum(n) FILTER (WHERE outcome = 'released'), 0) AS released,
         coalesce(sum(n) FILTER (WHERE outcome = 'lost'), 0) AS lost,
         coalesce(sum(n) FILTER (WHERE outcome = 'modified'), 0) AS modified,
         coalesce(sum(n) FILTER (WHERE outcome = 'dead_lettered'), 0) AS dead_lettered,
         coalesce(sum(n) FILTER (WHERE outcome = 'expired'), 0) AS expired,
         coalesce(sum(n) FILTER (WHERE outcome = 'dropped'), 0) AS dropped,
         min(longest_us) FILTER (WHERE step IS NOT NULL AND up_to >= ceil(timed * 0.5D))
           / 1000000 AS settle_seconds_p50,
         min(longest_us) FILTER (WHERE step IS NOT NULL AND up_to >= ceil(timed * 0.9D))
           / 1000000 AS settle_seconds_p90,
         min(longest_us) FILTER (WHERE step IS NOT NULL AND up_to >= ceil(timed * 0.99D))
           / 1000000 AS settle_seconds_p99,
         min(first_seen) AS first_seen, max(last_seen) AS last_seen
  FROM ranked
  GROUP BY subscription, consumer
)
SELECT subscription, consumer, deliveries, accepted, rejected, released, lost, modified,
       dead_lettered, expired, dropped,
       deliveries / sum(deliveries) OVER (PARTITION BY subscription) AS share,
       try_divide(deliveries,
                  (max(unix_micros(last_seen)) OVER (PARTITION BY subscription)
                   - min(unix_micros(first_seen)) OVER (PARTITION BY subscription)) / 1000000)
         AS per_second,
       settle_seconds_p50, settle_seconds_p90, settle_seconds_p99, first_seen, last_seen
FROM counted
