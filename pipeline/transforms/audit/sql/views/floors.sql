-- floors: the highest floor in the settlements of one incarnation in one group.
SELECT l.incarnation, s.`group`, max(s.floor) AS floor
FROM topic_log s
JOIN lives l
  ON s.subscription = l.subscription
 AND s.`group` > l.since AND (l.until IS NULL OR s.`group` <= l.until)
WHERE s.record = 'settlement'
GROUP BY l.incarnation, s.`group`
