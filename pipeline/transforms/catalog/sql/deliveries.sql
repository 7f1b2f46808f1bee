-- deliveries: each delivery once; the last failed delivery of a message has two rows in acks.
SELECT subscription, topic, sequence, consumer, outcome, final, delivery_count,
       delivered_at, settled_at, floor, `group`, day
FROM {acks}
WHERE delivered_at IS NOT NULL AND outcome NOT IN ('modified', 'dead_lettered')
UNION ALL
SELECT subscription, first(topic), sequence, consumer, max_by(outcome, final), max(final),
       min(delivery_count), delivered_at, min(settled_at), max(floor), max(`group`), min(day)
FROM {acks}
WHERE delivered_at IS NOT NULL AND outcome IN ('modified', 'dead_lettered')
GROUP BY subscription, sequence, consumer, delivered_at
