-- events: all that happened to messages and subscriptions.
SELECT published_at AS at, 'published' AS event, CAST(NULL AS STRING) AS subscription, topic,
       sequence, CAST(NULL AS STRING) AS consumer, CAST(NULL AS STRING) AS by, `group`
FROM {messages}
UNION ALL
SELECT delivered_at, 'delivered', subscription, topic, sequence, consumer, NULL, `group`
FROM {deliveries}
UNION ALL
SELECT settled_at, outcome, subscription, topic, sequence, consumer, NULL, `group`
FROM {acks}
UNION ALL
SELECT recorded_at, event, subscription, topic, NULL, NULL, by, `group`
FROM {subscriptions}
